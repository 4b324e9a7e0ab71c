"""The values that pass between layers."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.values import DecodedResponse, LlmRequest, LlmResponse, TokenUsage

_counts = st.integers(0, 10**12)
_details = st.one_of(st.none(), _counts)
_usages = st.builds(TokenUsage, _counts, _counts, _counts, _details, _details)


# Usage


def test_usages_add_up_part_by_part():
    assert TokenUsage(1, 2, 3, 4, 5) + TokenUsage(10, 20, 30, 40, 50) == TokenUsage(11, 22, 33, 44, 55)


@pytest.mark.parametrize(("one", "other", "expected"), [(None, None, None), (None, 0, 0), (3, None, 3), (0, 0, 0)])
def test_a_detail_is_unknown_only_where_every_part_is(one, other, expected):
    total = TokenUsage(1, 1, 2, one, one) + TokenUsage(1, 1, 2, other, other)
    assert (total.cached_tokens, total.reasoning_tokens) == (expected, expected)


@given(_usages, _usages, _usages)
def test_the_order_of_adding_does_not_matter(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)


@given(_usages)
def test_nothing_added_changes_nothing(usage):
    assert usage + TokenUsage(0, 0, 0) == usage
    assert sum([usage], TokenUsage(0, 0, 0)) == usage


@pytest.mark.parametrize("other", [1, None, (1, 2, 3)])
def test_only_usages_add_to_usages(other):
    with pytest.raises(TypeError):
        TokenUsage(1, 2, 3) + other


def test_an_unknown_detail_is_not_zero():
    assert TokenUsage(1, 2, 3) != TokenUsage(1, 2, 3, 0, 0)
    assert hash(TokenUsage(1, 2, 3)) == hash(TokenUsage(1, 2, 3, None, None))


# Responses


def test_a_response_carries_the_raw_digest_of_its_verbatim_bytes():
    response = LlmResponse(b"\x00 verbatim \xff")
    assert response.response_digest == sha256(b"\x00 verbatim \xff").digest()
    assert len(LlmResponse(b"").response_digest) == 32


def test_responses_are_equal_by_their_bytes():
    assert LlmResponse(b"a") == LlmResponse(b"a") != LlmResponse(b"b")
    assert repr(LlmResponse(b"a")) == "LlmResponse(response=b'a')"


def test_a_decoded_response_needs_only_usage_and_text():
    decoded = DecodedResponse(None, None)
    assert (decoded.tool_calls, decoded.finish_reason, decoded.refusal) == ((), None, None)
    assert (decoded.response_model, decoded.response_id, decoded.vendor_finish_reason) == (None, None, None)


# All of them


VALUES = [
    LlmRequest("m", [{"role": "user", "content": "hi"}], None, {"temperature": 0}),
    LlmResponse(b"bytes"),
    TokenUsage(1, 2, 3, None, 5),
    DecodedResponse(TokenUsage(1, 2, 3), "text", "stop"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_frozen_and_travel(value):
    assert pickle.loads(pickle.dumps(value)) == value
    assert not hasattr(value, "__dict__")
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(value, value.__slots__[0], None)


def test_a_travelled_response_keeps_its_digest():
    response = pickle.loads(pickle.dumps(LlmResponse(b"bytes")))
    assert response.response_digest == sha256(b"bytes").digest()
