from __future__ import annotations

import json
from typing import Any

import pytest

from beam_agents.errors import ResponseDecodeError
from beam_agents.providers.gemini import decode_gemini
from beam_agents.values import DecodedResponse, TokenUsage


def decoded(parts: Any, finish: Any = "STOP", usage: Any = None, **more: Any) -> DecodedResponse:
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish}
    return decode_gemini(json.dumps({"candidates": [candidate], "usageMetadata": usage, **more}).encode())


def test_text_of_all_parts_without_thoughts():
    parts = [{"text": "hm", "thought": True}, {"text": "a"}, {"inlineData": {}}, {"text": "b", "thoughtSignature": "s"}]
    assert decoded(parts).text == "ab"


def test_function_calls_become_tool_calls_with_their_signature():
    parts = [
        {"functionCall": {"id": "f1", "name": "weather", "args": {"city": "Bern"}}, "thoughtSignature": "sig"},
        {"functionCall": {"name": "now"}},
    ]
    answer = decoded(parts)
    first, second = answer.tool_calls
    assert (first["id"], first["function"]) == ("f1", {"name": "weather", "arguments": '{"city":"Bern"}'})
    assert first["extra_content"] == {"google": {"thought_signature": "sig"}}
    assert (second["id"], second["function"]) == ("gemini-call-1", {"name": "now", "arguments": "{}"})
    assert (answer.finish_reason, answer.vendor_finish_reason, answer.text) == ("tool_calls", "STOP", None)


@pytest.mark.parametrize("feedback", [{"blockReason": "SAFETY"}, {"blockReason": "PROHIBITED_CONTENT"}])
def test_a_blocked_prompt_is_an_answer_without_text(feedback: Any):
    usage = {"promptTokenCount": 8, "totalTokenCount": 8}
    answer = decode_gemini(json.dumps({"promptFeedback": feedback, "usageMetadata": usage}).encode())
    assert (answer.text, answer.finish_reason) == (None, "content_filter")
    assert answer.vendor_finish_reason == feedback["blockReason"]
    assert answer.usage == TokenUsage(8, 0, 8)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("SPII", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        ("OTHER", "OTHER"),
    ],
)
def test_finish_reasons(said: str, expected: str):
    assert decoded([{"text": "x"}], said).finish_reason == expected


def test_a_candidate_without_content_but_with_a_reason_is_an_answer():
    body = {"candidates": [{"finishReason": "SAFETY", "index": 0}]}
    answer = decode_gemini(json.dumps(body).encode())
    assert (answer.text, answer.finish_reason) == (None, "content_filter")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}, TokenUsage(9, 4, 13)),
        (
            {
                "promptTokenCount": 9,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 30,
                "totalTokenCount": 43,
                "cachedContentTokenCount": 8,
            },
            TokenUsage(9, 34, 43, 8, 30),
        ),
        (
            {
                "promptTokenCount": 9,
                "toolUsePromptTokenCount": 5,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 30,
                "totalTokenCount": 48,
            },
            TokenUsage(14, 34, 48, None, 30),
        ),
        (
            {"promptTokenCount": 9, "candidatesTokenCount": 34, "thoughtsTokenCount": 30, "totalTokenCount": 43},
            TokenUsage(9, 34, 43, None, 30),
        ),
        ({"promptTokenCount": 9, "thoughtsTokenCount": 30, "totalTokenCount": 39}, TokenUsage(9, 30, 39, None, 30)),
        ({"promptTokenCount": 9, "totalTokenCount": 9}, TokenUsage(9, 0, 9)),
        ({"promptTokenCount": "9", "candidatesTokenCount": 4.0}, TokenUsage(9, 4, 13)),
        ({"candidatesTokenCount": 4}, None),
        ({}, None),
        (None, None),
        ("x", None),
    ],
)
def test_usage_counts_thoughts_in(usage: Any, expected: TokenUsage | None):
    answer = decoded([{"text": "kept"}], usage=usage)
    assert answer.text == "kept"
    assert answer.usage == expected


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"candidates":[]}', b'{"candidates":[{}]}', b'{"candidates":[7]}', b'{"promptFeedback":{}}', b"[]"],
)
def test_an_answer_without_candidates_or_a_block_reason_is_a_decode_error(body: bytes):
    with pytest.raises(ResponseDecodeError):
        decode_gemini(body)


def test_whole_numbers_in_a_tool_call_stay_exact():
    said = {"functionCall": {"name": "f", "args": {"id": 12345678901234567890123}}}
    body = json.dumps({"candidates": [{"content": {"parts": [said]}}]}).encode()
    (call,) = decode_gemini(body).tool_calls
    assert json.loads(call["function"]["arguments"]) == {"id": 12345678901234567890123}
