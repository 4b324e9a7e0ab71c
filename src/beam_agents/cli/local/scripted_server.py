"""A scripted stand-in for a model: a chat-completions endpoint that sorts support tickets by their words.

It is no model and says so in `model` and in every answer's `system_fingerprint`. Like the llama.cpp server it
serves until its standard input ends, and prints its endpoint as one line of JSON. Its token counts are
estimates: one for every four characters.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any, Final

from aiohttp import web

__all__ = ["SCRIPTED_NAME", "answer_to", "main"]

SCRIPTED_NAME: Final = "scripted-stand-in"

_LATENCY_S = 0.05
_CATEGORIES: Final = {
    "billing": ("invoice", "charge", "refund", "payment", "price", "vat", "card", "subscription", "plan", "bill"),
    "account": ("log in", "login", "password", "account", "email", "two-factor", "sign in", "invite", "locked"),
    "how_to": ("how do i", "how can i", "where", "is there a way", "can i", "is it possible"),
    "feedback": ("love", "thank", "great", "would be nice", "suggestion", "please add", "wish"),
    "bug": ("crash", "error", "broken", "empty", "slow", "does not", "doesn't", "wrong", "fail", "stuck", "blank"),
}
_URGENT: Final = ("urgent", "immediately", "asap", "production", "cannot work", "down", "deadline", "all our", "today")
_CALM: Final = ("love", "thank", "great", "would be nice", "wish", "how do i", "how can i", "where", "no rush")


def answer_to(question: str) -> dict[str, str]:
    """Category and urgency of a ticket, by the words in it."""
    words = question.lower()
    category = next((name for name, known in _CATEGORIES.items() if any(word in words for word in known)), "bug")
    urgency = "high" if any(w in words for w in _URGENT) else "low" if any(w in words for w in _CALM) else "normal"
    return {"category": category, "urgency": urgency}


async def _complete(request: web.Request) -> web.Response:
    asked: dict[str, Any] = await request.json()
    await asyncio.sleep(_LATENCY_S)  # noqa: TID251 - a model takes its time
    text = json.dumps(answer_to(str(asked["messages"][-1]["content"])))
    read = sum(len(str(message["content"])) for message in asked["messages"]) // 4
    written = len(text) // 4
    return web.json_response(
        {
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "model": SCRIPTED_NAME,
            "system_fingerprint": SCRIPTED_NAME,
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
        }
    )


async def _serve() -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", _complete)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(json.dumps({"endpoint": f"http://127.0.0.1:{runner.addresses[0][1]}"}), flush=True)
    await asyncio.Event().wait()


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve until standard input ends."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
