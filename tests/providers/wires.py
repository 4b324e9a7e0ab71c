"""Each vendor's wire as a test server speaks it; the contract suite runs over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beam_agents.providers import load_provider

PROMPT = "the patient Ludmilla Quistgaard paid 48213 crowns"
KEY = "sk-contract-0123456789abcdef"


@dataclass(frozen=True)
class Wire:
    """How one vendor's endpoint answers.

    Attributes:
        answer: a good answer with this text, id `answer-1`, model `test-model-2026`, 9 tokens in and 4 out.
        error: the body of an error with this status, code and message.
        prompt_of: the text of the first message in a request's body.
        path, key_header: where a request goes, below the base URL, and the header that carries the key.
        tool_call: an answer that calls the tool `weather` for the city Bern; `None` where the wire has no tools.
        mocked: whether the mock servers speak this wire too.
    """

    vendor: str
    answer: Callable[[str], dict[str, Any]]
    error: Callable[[int, str, str], dict[str, Any]]
    prompt_of: Callable[[Any], str]
    path: str
    key_header: str
    tool_call: Any = None
    mocked: bool = False

    def client(self, base_url: str, **options: Any) -> Any:
        return load_provider(f"{self.vendor}:test-model", **{"base_url": base_url, "api_key": KEY, **options})


def _openai_answer(text: str) -> dict[str, Any]:
    return {
        "id": "answer-1",
        "object": "chat.completion",
        "model": "test-model-2026",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    }


def _anthropic_answer(text: str) -> dict[str, Any]:
    return {
        "id": "answer-1",
        "type": "message",
        "role": "assistant",
        "model": "test-model-2026",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 4},
    }


def _gemini_answer(text: str) -> dict[str, Any]:
    return {
        "responseId": "answer-1",
        "modelVersion": "test-model-2026",
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13},
    }


_GOOGLE_WORDS = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}

WIRES = {
    "openai": Wire(
        "openai",
        _openai_answer,
        lambda status, code, message: {"error": {"message": message, "type": code, "code": code, "param": None}},
        lambda body: body["messages"][0]["content"],
        "/chat/completions",
        "authorization",
        {
            "choices": [
                {
                    "message": {
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "c1",
                                "type": "function",
                                "function": {"name": "weather", "arguments": '{"city":"Bern"}'},
                            }
                        ],
                    },
                    "finish_reason": "tool_calls",
                }
            ]
        },
        mocked=True,
    ),
    "anthropic": Wire(
        "anthropic",
        _anthropic_answer,
        lambda status, code, message: {"type": "error", "error": {"type": code, "message": message}},
        lambda body: body["messages"][0]["content"][0]["text"],
        "/v1/messages",
        "x-api-key",
        {
            "type": "message",
            "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Bern"}}],
            "stop_reason": "tool_use",
        },
        mocked=True,
    ),
    "gemini": Wire(
        "gemini",
        _gemini_answer,
        lambda status, code, message: {
            "error": {"code": status, "message": message, "status": _GOOGLE_WORDS.get(status, "UNKNOWN")}
        },
        lambda body: body["contents"][0]["parts"][0]["text"],
        "/v1beta/models/test-model:generateContent",
        "x-goog-api-key",
        {
            "candidates": [
                {
                    "content": {"parts": [{"functionCall": {"name": "weather", "args": {"city": "Bern"}}}]},
                    "finishReason": "STOP",
                }
            ]
        },
        mocked=True,
    ),
}
