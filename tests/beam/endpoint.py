"""A chat-completions endpoint on loopback, in a thread of its own, that counts what it serves."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any

from aiohttp import web


class CountingEndpoint:
    """Answers every request, except that each `failing_every`-th is refused with 503."""

    def __init__(self, *, failing_every: int = 0, answer: str = "hello") -> None:
        self.served = 0
        self.failed = 0
        self.tokens = 0
        self.url = ""
        self._failing_every = failing_every
        self._answer = answer
        self._arrived = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> CountingEndpoint:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _complete(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        self._arrived += 1
        if self._failing_every and self._arrived % self._failing_every == 0:
            self.failed += 1
            return web.json_response({"error": {"message": "overloaded"}}, status=503)
        self.served += 1
        self.tokens += 12
        answer = {
            "id": f"answer-{self.served}",
            "model": body["model"],
            "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": self._answer}}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        }
        return web.json_response(answer)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._started())
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _started(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/v1"
        self._ready.set()
        return runner
