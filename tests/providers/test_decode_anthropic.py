from __future__ import annotations

import json
from typing import Any

import pytest

from beam_agents.errors import ResponseDecodeError
from beam_agents.providers.anthropic import decode_anthropic
from beam_agents.values import DecodedResponse, TokenUsage


def decoded(content: Any, stop: Any = "end_turn", usage: Any = None, **more: Any) -> DecodedResponse:
    message = {"type": "message", "content": content, "stop_reason": stop, "usage": usage, **more}
    return decode_anthropic(json.dumps(message).encode())


def test_text_of_all_blocks_without_thinking():
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "a"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "b"},
    ]
    assert decoded(blocks).text == "ab"


def test_thinking_alone_is_no_answer():
    answer = decoded([{"type": "thinking", "thinking": "hm"}], "max_tokens")
    assert (answer.text, answer.finish_reason) == (None, "length")


def test_tool_uses_become_tool_calls():
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Zürich", "n": 2**70}}
    answer = decoded([{"type": "text", "text": "let me look"}, use], "tool_use")
    (call,) = answer.tool_calls
    assert (call["id"], call["type"], call["function"]["name"]) == ("toolu_1", "function", "weather")
    assert json.loads(call["function"]["arguments"])["city"] == "Zürich"
    assert (answer.text, answer.finish_reason) == ("let me look", "tool_calls")


def test_a_tool_call_with_a_lone_surrogate_is_kept():
    body = b'{"content":[{"type":"tool_use","id":"t","name":"f","input":{"x":"\\ud83d"}}],"stop_reason":"tool_use"}'
    (call,) = decode_anthropic(body).tool_calls
    assert json.loads(call["function"]["arguments"]) == {"x": "\ud83d"}


@pytest.mark.parametrize(
    ("content", "details", "expected"),
    [
        ([], None, "the model refused without words"),
        ([{"type": "text", "text": "I won't"}], None, "I won't"),
        ([], {"type": "refusal", "explanation": "policy"}, "policy"),
    ],
)
def test_a_refusal(content: Any, details: Any, expected: str):
    answer = decoded(content, "refusal", stop_details=details)
    assert (answer.refusal, answer.finish_reason, answer.vendor_finish_reason) == (expected, "refusal", "refusal")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "pause_turn"),
        (None, None),
    ],
)
def test_stop_reasons(said: Any, expected: str | None):
    assert decoded([], said).finish_reason == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 9, "output_tokens": 4}, TokenUsage(9, 4, 13)),
        (
            {
                "input_tokens": 9,
                "output_tokens": 4,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 20,
            },
            TokenUsage(129, 4, 133, 100),
        ),
        (
            {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 0, "cache_creation_input_tokens": None},
            TokenUsage(9, 4, 13, 0),
        ),
        (
            {"input_tokens": 9, "output_tokens": 40, "output_tokens_details": {"thinking_tokens": 30}},
            TokenUsage(9, 40, 49, None, 30),
        ),
        ({"input_tokens": "9", "output_tokens": 4.0}, TokenUsage(9, 4, 13)),
        ({"input_tokens": 0, "output_tokens": 0}, TokenUsage(0, 0, 0)),
        ({"output_tokens": 4}, None),
        (None, None),
        (3, None),
    ],
)
def test_usage_counts_cached_tokens_in(usage: Any, expected: TokenUsage | None):
    answer = decoded([{"type": "text", "text": "kept"}], usage=usage)
    assert answer.text == "kept"
    assert answer.usage == expected


@pytest.mark.parametrize("content", [None, "text", {}, 5])
def test_an_answer_without_blocks_is_a_decode_error(content: Any):
    with pytest.raises(ResponseDecodeError):
        decoded(content)


def test_odd_blocks_are_skipped():
    assert decoded([None, 5, {"type": "text"}, {"type": "text", "text": None}, {"text": "x"}]).text is None


def test_whole_numbers_in_a_tool_call_stay_exact():
    use = {"type": "tool_use", "id": "1", "name": "f", "input": {"id": 12345678901234567890123}}
    body = json.dumps({"type": "message", "content": [use]}).encode()
    (call,) = decode_anthropic(body).tool_calls
    assert json.loads(call["function"]["arguments"]) == {"id": 12345678901234567890123}
