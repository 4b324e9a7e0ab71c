"""Mutated answers: `decode` and classification give an answer or a typed error, nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_agents.errors import ProviderError, ProviderRequestError, ResponseDecodeError
from beam_agents.providers import PROVIDERS, load_provider
from beam_agents.providers.classification import Asked, WireAnswer, accepted_body
from beam_agents.values import DecodedResponse
from tests.providers.wires import WIRES

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.sampled_from(
        [2**70, -1, "9", "1e400", "\ud83d", 10**400, "stop", "SAFETY", "refusal", "error", {}, [], [[]], [{}]]
    ),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MORE_SEEDS: dict[str, list[Any]] = {
    "openai": [
        {
            "choices": [
                {
                    "message": {
                        "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
                        "refusal": None,
                        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                    },
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": {
                "prompt_tokens_details": {"cached_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        },
        {"error": {"message": "m", "type": "t", "param": "p", "code": "c", "details": [{"retryDelay": "1s"}]}},
    ],
    "anthropic": [
        {
            "content": [
                {"type": "thinking", "thinking": "h"},
                {"type": "tool_use", "id": "1", "name": "f", "input": {"a": [1]}},
            ],
            "stop_reason": "refusal",
            "stop_details": {"explanation": "x"},
            "usage": {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 1},
        },
        {"type": "error", "error": {"type": "overloaded_error", "message": "m"}, "request_id": "r"},
    ],
    "gemini": [
        {
            "candidates": [
                {"content": {"parts": [{"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "s"}]}}
            ],
            "usageMetadata": {"promptTokenCount": 1, "thoughtsTokenCount": 1, "totalTokenCount": 3},
        },
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 1}},
    ],
}


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at]
    if isinstance(value, dict):
        found += [place for key in value for place in places(value[key], (*at, key))]
    if isinstance(value, list):
        found += [place for index in range(len(value)) for place in places(value[index], (*at, index))]
    return found


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    copy = value.copy()
    copy[at[0]] = replaced(value[at[0]], at[1:], new)
    return copy


@st.composite
def bodies(draw: st.DrawFn, vendor: str) -> bytes:
    value = draw(st.sampled_from([WIRES[vendor].answer("x"), *MORE_SEEDS.get(vendor, ())]))
    for _ in range(draw(st.integers(1, 3))):
        value = replaced(value, draw(st.sampled_from(places(value))), draw(JSON))
    body = json.dumps(value).encode()
    if draw(st.booleans()):
        return body
    cut = draw(st.integers(0, len(body)))
    return body[:cut] + draw(st.binary(max_size=3)) + body[cut + draw(st.integers(0, 3)) :]


@pytest.mark.parametrize("vendor", sorted(PROVIDERS))
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_decode_gives_an_answer_or_a_decode_error(vendor: str, data: st.DataObject):
    body = data.draw(bodies(vendor))
    decode = load_provider(f"{vendor}:m", base_url="http://127.0.0.1:1").decode
    try:
        decoded = decode(body)
    except ResponseDecodeError:
        return
    assert isinstance(decoded, DecodedResponse)
    assert decoded.text is None or isinstance(decoded.text, str)
    if decoded.usage is not None:
        assert decoded.usage.total_tokens == decoded.usage.prompt_tokens + decoded.usage.completion_tokens
        assert decoded.usage.prompt_tokens >= (decoded.usage.cached_tokens or 0)
        assert decoded.usage.completion_tokens >= (decoded.usage.reasoning_tokens or 0)


@pytest.mark.parametrize("vendor", sorted(PROVIDERS))
@settings(max_examples=300, deadline=None)
@given(data=st.data(), status=st.sampled_from([200, 204, 301, 400, 408, 429, 500, 529]))
def test_classification_gives_the_bytes_or_a_typed_error(vendor: str, data: st.DataObject, status: int):
    body = data.draw(bodies(vendor))
    asked = Asked("http://host:1", [{"content": "secret words"}], "key", None)
    try:
        accepted = accepted_body(WireAnswer(status, {"retry-after": "x"}, body), asked)
    except (ProviderError, ProviderRequestError):
        return
    assert accepted is body
    assert status < 300
