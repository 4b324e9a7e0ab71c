from __future__ import annotations

import json
from typing import Any

import pytest

from beam_agents.errors import ResponseDecodeError
from beam_agents.providers.openai import decode_openai
from beam_agents.values import DecodedResponse, TokenUsage


def decoded(message: Any, finish: Any = "stop", usage: Any = None, **more: Any) -> DecodedResponse:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return decode_openai(json.dumps({"choices": [choice], "usage": usage, **more}).encode())


def test_content_may_be_a_list_of_parts():
    parts = [{"type": "text", "text": "a"}, {"type": "image", "url": "x"}, {"type": "output_text", "text": "b"}, "c"]
    assert decoded({"content": parts}).text == "ab"


def test_a_refusal_has_no_text():
    answer = decoded({"content": None, "refusal": "I cannot help"})
    assert (answer.text, answer.refusal, answer.finish_reason) == (None, "I cannot help", "refusal")
    assert answer.vendor_finish_reason == "stop"


def test_a_refusal_may_be_a_part():
    answer = decoded({"content": [{"type": "refusal", "refusal": "no"}]})
    assert (answer.text, answer.refusal) == (None, "no")


def test_tool_calls_are_kept_as_they_are():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answer = decoded({"content": None, "tool_calls": [call, None]}, "tool_calls")
    assert answer.tool_calls == (call,)
    assert answer.text is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}]}, ("c1", '{"a":1}')),
        ({"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f"}}]}, ("c1", "{}")),
        ({"tool_calls": [{"id": None, "function": {"name": "f", "arguments": ""}}]}, (None, "{}")),
        ({"tool_calls": None, "function_call": {"name": "f", "arguments": "{}"}}, (None, "{}")),
    ],
)
def test_tool_calls_of_servers_that_are_not_exact_get_the_promised_form(message: Any, expected: Any):
    answer = decoded({"content": None, **message})
    (call,) = answer.tool_calls
    assert (call.get("id"), call["function"]["arguments"]) == expected
    assert (call["type"], call["function"]["name"]) == ("function", "f")
    assert answer.finish_reason == "tool_calls"


def test_a_call_of_another_kind_is_kept_as_it_is():
    call = {"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x"}}
    assert decoded({"content": None, "tool_calls": [call]}).tool_calls == (call,)


def test_text_only_in_a_reasoning_field_is_no_answer():
    assert decoded({"content": None, "reasoning_content": "hmm", "reasoning": "hmm"}).text is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("model_length", "length"),
        ("MAX_TOKENS", "length"),
        ("eos", "eos"),
        (None, None),
        (7, None),
    ],
)
def test_finish_reasons(said: Any, expected: str | None):
    assert decoded({"content": "x"}, said).finish_reason == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}, TokenUsage(9, 4, 13)),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, TokenUsage(0, 0, 0)),
        ({"prompt_tokens": "9", "completion_tokens": 4.0}, TokenUsage(9, 4, 13)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 99}, TokenUsage(9, 4, 13)),
        ({"prompt_tokens": 9, "total_tokens": 13}, TokenUsage(9, 4, 13)),
        ({"completion_tokens": 4, "total_tokens": 13}, TokenUsage(9, 4, 13)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 40,
                "total_tokens": 49,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            TokenUsage(9, 40, 49, 8, 30),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "total_tokens": 43,
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            TokenUsage(9, 34, 43, None, 30),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5}, TokenUsage(9, 4, 13, 5)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": None,
                "completion_tokens_details": [],
            },
            TokenUsage(9, 4, 13),
        ),
        (None, None),
        ({}, None),
        ([], None),
        ("many", None),
        ({"prompt_tokens": 9}, None),
        ({"total_tokens": 9}, None),
        ({"prompt_tokens": None, "completion_tokens": 4}, None),
        ({"prompt_tokens": -9, "completion_tokens": 4}, None),
        ({"prompt_tokens": 9.5, "completion_tokens": 4}, None),
        ({"prompt_tokens": "x", "completion_tokens": True}, None),
        ({"prompt_tokens": 9, "total_tokens": 4}, None),
    ],
)
def test_usage_never_costs_the_answer(usage: Any, expected: TokenUsage | None):
    answer = decoded({"content": "kept"}, usage=usage)
    assert answer.text == "kept"
    assert answer.usage == expected


def test_a_lone_surrogate_and_nan_do_not_cost_the_answer():
    body = b'{"choices":[{"message":{"content":"a\\ud83d"},"logprobs":NaN}],"usage":null}'
    assert decode_openai(body).text == "a\ud83d"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"<html>", b"[]", b"{}", b'{"choices":null}', b'{"choices":[null]}', b'{"choices":[{}]}'),
        *(b'{"choices":[{"message":null}]}', b'{"choices":{"0":{}}}', b"[" * 100_000),
    ],
)
def test_what_is_not_a_chat_completion_is_a_decode_error(body: bytes):
    with pytest.raises(ResponseDecodeError):
        decode_openai(body)
