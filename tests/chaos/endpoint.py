"""A chat-completions endpoint in a process of its own: it keeps its own books, and it misbehaves on purpose.

Every request that reaches it whole becomes one line of its ledger, also when its client is gone by then: what a
real provider would bill. Which request meets which fault is a pure function of seed and request, so that the order
of arrival does not matter. An answer differs from every other one, as a model's would: text and tokens tell its
serial number.

Started by `processes.endpoint`; prints its port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import struct
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

from aiohttp import web

__all__ = ["FAULTS", "Endpoint", "prompt_digest"]

FAULTS = ("refused", "broken", "dropped", "cut", "garbled")
"""429 with a wait; 503; reset before an answer; reset inside an answer; an answer that cannot be read."""

_FAULTS_OF_A_CALL = 3


def prompt_digest(messages: list[dict[str, str]]) -> str:
    """What a ledger keeps of a prompt."""
    return sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


class Endpoint:
    """Answers, counts and fails. `faults` is the share of requests that meet one."""

    def __init__(self, ledger: TextIO, seed: str, faults: float, latency_ms: tuple[float, float]) -> None:
        self._ledger = ledger
        self._seed = seed
        self._faults = faults
        self._latency_ms = latency_ms
        self._asked: Counter[str] = Counter()
        self._serial = 0
        self._busy = 0

    def app(self) -> web.Application:
        """The routes: the vendor's wire, and what the driver asks."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/busy", self._tell_busy)
        app.router.add_post("/behave", self._behave)
        return app

    async def _tell_busy(self, _: web.Request) -> web.Response:
        return web.json_response(self._busy)

    async def _behave(self, request: web.Request) -> web.Response:
        self._faults = float((await request.json())["faults"])
        return web.json_response(self._faults)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self._busy += 1
        try:
            return await self._served(request, await request.json(), time.monotonic())
        finally:
            self._busy -= 1

    async def _served(self, request: web.Request, body: dict[str, Any], arrived: float) -> web.StreamResponse:
        digest = prompt_digest(body["messages"])
        subject = body["messages"][-1]["content"].partition("\n")[0]
        self._asked[subject] += 1
        dice = sha256(f"{self._seed}/{subject}/{self._asked[subject]}".encode()).digest()
        low, high = self._latency_ms
        await asyncio.sleep((low + (high - low) * dice[0] / 255) / 1000)
        kind = self._kind(dice, self._asked[subject])
        self._serial += 1
        usage = _usage(self._serial) if kind in ("answered", "cut", "garbled") else (0, 0)
        entry = {
            "serial": self._serial,
            "call": request.headers.get("Idempotency-Key", ""),
            "subject": subject,
            "prompt": digest,
            "kind": kind,
            "status": {"refused": 429, "broken": 503}.get(kind),
            "input_tokens": usage[0],
            "output_tokens": usage[1],
            "arrived": arrived,
            "ended": time.monotonic(),
            "gone": request.transport is None or request.transport.is_closing(),
        }
        self._ledger.write(json.dumps(entry) + "\n")
        self._ledger.flush()
        return await _answer(request, kind, self._serial, usage)

    def _kind(self, dice: bytes, asked: int) -> str:
        struck = int.from_bytes(dice[1:5], "big") / 2**32 < self._faults
        if not struck or asked > _FAULTS_OF_A_CALL:
            return "answered"
        return FAULTS[dice[5] % len(FAULTS)]


def _usage(serial: int) -> tuple[int, int]:
    """Tokens that no other answer has, below 97,873 answers."""
    return 11 + serial % 1009, 1 + serial % 97


async def _answer(request: web.Request, kind: str, serial: int, usage: tuple[int, int]) -> web.StreamResponse:
    if kind == "refused":
        return web.json_response({"error": {"message": "slow down"}}, status=429, headers={"retry-after-ms": "40"})
    if kind == "broken":
        return web.json_response({"error": {"message": "out of order"}}, status=503)
    if kind == "dropped":
        _reset(request)
        return web.Response()
    if kind == "garbled":
        return web.Response(body=b"\x1f\x8b<html>" + b"\xff" * 40, content_type="application/json")
    body = _completion(serial, usage)
    if kind == "cut":
        response = web.StreamResponse(headers={"Content-Length": str(len(body)), "Content-Type": "application/json"})
        with contextlib.suppress(ConnectionError):  # the client may be dead by now
            await response.prepare(request)
            await response.write(body[: len(body) // 2])
        _reset(request)
        return response
    return web.Response(body=body, content_type="application/json")


def _completion(serial: int, usage: tuple[int, int]) -> bytes:
    message = {"role": "assistant", "content": f"answer {serial}"}
    return json.dumps(
        {
            "id": f"chat-{serial}",
            "object": "chat.completion",
            "model": "chaos-1",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)},
        }
    ).encode()


def _reset(request: web.Request) -> None:
    """End the connection with a reset, as a dying proxy does."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()


async def _serve(endpoint: Endpoint) -> None:
    runner = web.AppRunner(endpoint.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ledger", required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--faults", type=float, required=True)
    parser.add_argument("--low-ms", type=float, required=True)
    parser.add_argument("--high-ms", type=float, required=True)
    options = parser.parse_args()
    with Path(options.ledger).open("a") as ledger:
        asyncio.run(_serve(Endpoint(ledger, options.seed, options.faults, (options.low_ms, options.high_ms))))


if __name__ == "__main__":
    main()
