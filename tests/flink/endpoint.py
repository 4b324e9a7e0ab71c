"""An endpoint that answers chat completions slowly, faultily, and counts: `python endpoint.py PORT SEED`.

What it does to a request depends on the seed, the prompt and how often that prompt came, so that two runs
with one seed meet the same faults. `GET /log` is every request so far; `POST /dead?seconds=20` cuts every
connection for that long.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from aiohttp import web

__all__ = ["Endpoint", "Served"]

LATENCY_S = 0.2
SLOW_S = 5.0
SLOW_ONE_IN = 97
FAULTS_PER_HUNDRED = 10
_FAULTS = (429, 500, 503, 0)


@dataclass(slots=True)
class Served:
    """One request: when it came, from which port, how it ended (status 0: the connection was cut), and whether
    the asker was gone by then.
    """

    prompt: str
    port: int
    arrived: float
    ended: float | None = None
    status: int | None = None
    id: str = ""
    tokens: int = 0
    undelivered: bool = False


class Endpoint:
    """The server's state."""

    def __init__(self, seed: str, *, faults: int = FAULTS_PER_HUNDRED, slow_one_in: int = SLOW_ONE_IN) -> None:
        self._seed = seed
        self._faults = faults
        self._slow_one_in = slow_one_in
        self._seen: Counter[str] = Counter()
        self._dead_until = 0.0
        self._answers = 0
        self.log: list[Served] = []

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.complete)
        app.router.add_get("/log", self.tell)
        app.router.add_post("/dead", self.die)
        return app

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer, late or not at all."""
        body = await request.json()
        prompt = body["messages"][-1]["content"]
        peer = request.transport.get_extra_info("peername") if request.transport else None
        served = Served(prompt, peer[1] if peer else 0, time.time())
        self.log.append(served)
        self._seen[prompt] += 1
        fault = self._fault(prompt, self._seen[prompt])
        if time.time() < self._dead_until:
            fault = 0
        elif self._slow_one_in and self._draw("slow", prompt) % self._slow_one_in == 0:
            await asyncio.sleep(SLOW_S)
        else:
            await asyncio.sleep(LATENCY_S)
        served.ended = time.time()
        served.status = 200 if fault is None else fault
        served.undelivered = request.transport is None or request.transport.is_closing()
        if fault == 0:
            if request.transport:
                request.transport.abort()
            return web.Response(status=500)
        if fault is not None:
            return web.json_response({"error": {"message": "a fault on purpose", "type": "fault"}}, status=fault)
        self._answers += 1
        served.id, served.tokens = f"answer-{self._answers}", 10 + self._draw("tokens", prompt) % 50
        return web.json_response(_answer(served, body["model"]))

    async def tell(self, request: web.Request) -> web.Response:
        """Everything that was asked."""
        return web.json_response([asdict(one) for one in self.log])

    async def die(self, request: web.Request) -> web.Response:
        """Cut every connection for some seconds."""
        self._dead_until = time.time() + float(request.query["seconds"])
        return web.json_response({})

    def _fault(self, prompt: str, nth: int) -> int | None:
        draw = self._draw(f"fault {nth}", prompt)
        return _FAULTS[draw // 100 % len(_FAULTS)] if draw % 100 < self._faults else None

    def _draw(self, purpose: str, prompt: str) -> int:
        return int.from_bytes(sha256(f"{self._seed}|{purpose}|{prompt}".encode()).digest()[:6], "big")


def _answer(served: Served, model: str) -> dict[str, Any]:
    text = json.dumps({"echo": served.prompt})
    return {
        "id": served.id,
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": served.tokens - 7, "total_tokens": served.tokens},
    }


if __name__ == "__main__":
    faults = int(sys.argv[3]) if len(sys.argv) > 3 else FAULTS_PER_HUNDRED
    slow = int(sys.argv[4]) if len(sys.argv) > 4 else SLOW_ONE_IN
    web.run_app(
        Endpoint(sys.argv[2], faults=faults, slow_one_in=slow).application(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        print=None,
        access_log=None,
    )
