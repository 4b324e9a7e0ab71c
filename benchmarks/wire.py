"""The answer that every benchmark gets: a chat completion of about 1 KB."""

from __future__ import annotations

import orjson

__all__ = ["WIRE"]

WIRE = orjson.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 780}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200},
    }
)
