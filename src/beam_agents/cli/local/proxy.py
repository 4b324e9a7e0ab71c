"""A proxy in front of a chat-completions endpoint: counts what really passes, and injects faults when asked."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import TracebackType

import orjson
from aiohttp import ClientSession, ClientTimeout, web

from beam_agents.cli.local.faults import Fault, FaultPlan

__all__ = ["CountingProxy", "WireCount"]

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time: close sends a reset
_HTML = "<html><body><h1>503 Service Unavailable</h1></body></html>"


@dataclass(slots=True)
class WireCount:
    """What passed the wire, counted by nobody but the proxy.

    Attributes:
        requests: requests that arrived.
        served: requests that the model answered with success, delivered or not.
        input_tokens, output_tokens: tokens of all served requests, as the model counted them.
        faults: how often each fault was injected.
        served_twice: requests that the model served although it had served the very same body before.
    """

    requests: int = 0
    served: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    served_twice: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __sub__(self, earlier: WireCount) -> WireCount:
        """What passed after `earlier` was taken."""
        return WireCount(
            self.requests - earlier.requests,
            self.served - earlier.served,
            self.input_tokens - earlier.input_tokens,
            self.output_tokens - earlier.output_tokens,
            self.served_twice - earlier.served_twice,
            self.faults - earlier.faults,
        )


class CountingProxy:
    """Forwards every request to `upstream`, on a free loopback port and a thread of its own.

    A context manager. `plan` may be exchanged while it runs; `take_count` starts a new count.

    Attributes:
        endpoint: where it listens, such as `http://127.0.0.1:40123`.
        count: what passed since the last `take_count`.
        plan: the faults to inject, or `None`.
    """

    def __init__(self, upstream: str, plan: FaultPlan | None = None) -> None:
        self.count = WireCount()
        self.plan = plan
        self._upstream = upstream
        self._changed = threading.Condition()
        self._under_way = 0
        self._seen: Counter[bytes] = Counter()
        self._served: set[bytes] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="counting-proxy", daemon=True)
        self._thread.start()
        self.endpoint = self._run(self._start())

    def __enter__(self) -> CountingProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def wait_until_served(self, answers: int, timeout_s: float) -> bool:
        """Wait until the model has given so many answers; whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count.served >= answers, timeout_s)

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until the model works on no request any more; whether it does not."""
        with self._changed:
            return self._changed.wait_for(lambda: self._under_way == 0, timeout_s)

    def snapshot(self) -> WireCount:
        """A copy of the count so far."""
        return replace(self.count, faults=self.count.faults.copy())

    def take_count(self) -> WireCount:
        """The count so far; starts a new one that remembers no earlier request."""
        taken, self.count = self.count, WireCount()
        self._seen.clear()
        self._served.clear()
        return taken

    def close(self) -> None:
        """Stop listening and free everything. Idempotent."""
        if self._loop.is_closed():
            return
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: object) -> str:
        future: Future[str] = asyncio.run_coroutine_threadsafe(work, self._loop)  # type: ignore[arg-type]
        return future.result(30)

    async def _start(self) -> str:
        self._session = ClientSession(timeout=ClientTimeout(total=None))
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> str:
        await self._runner.cleanup()
        await self._session.close()
        return ""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method != "POST":
            return await self._forwarded(request, body)
        digest = sha256(body).digest()
        fault = self.plan.fault(body, self._seen[digest]) if self.plan else None
        self._seen[digest] += 1
        self.count.requests += 1
        if fault is not None:
            self.count.faults[fault] += 1
        match fault:
            case Fault.RATE_LIMIT:
                return self._rate_limited()
            case Fault.UNAVAILABLE:
                return web.Response(status=503, text=_HTML, content_type="text/html")
            case Fault.RESET:
                return self._reset(request)
        self._note_under_way(+1)
        try:
            answer = await self._forwarded(request, body)
            self._count_served(answer, digest)
        finally:
            self._note_under_way(-1)
        if fault is Fault.LOST_ANSWER:
            return self._reset(request)
        if fault is Fault.STALL and self.plan is not None:
            await asyncio.sleep(self.plan.stall_s)  # noqa: TID251 - a real server stalls in real time
        return answer

    async def _forwarded(self, request: web.Request, body: bytes) -> web.Response:
        headers = {name: request.headers[name] for name in ("Content-Type", "Authorization") if name in request.headers}
        url = self._upstream + request.path_qs
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), headers={"Content-Type": answer.headers["Content-Type"]}
            )

    def _note_under_way(self, change: int) -> None:
        with self._changed:
            self._under_way += change
            self._changed.notify_all()

    def _count_served(self, answer: web.Response, digest: bytes) -> None:
        if answer.status != 200 or not isinstance(answer.body, bytes):
            return
        usage = orjson.loads(answer.body).get("usage") or {}
        with self._changed:
            self.count.served += 1
            self._changed.notify_all()
        self.count.input_tokens += usage.get("prompt_tokens", 0)
        self.count.output_tokens += usage.get("completion_tokens", 0)
        self.count.served_twice += digest in self._served
        self._served.add(digest)

    def _rate_limited(self) -> web.Response:
        wait_s = self.plan.retry_after_s if self.plan else 1
        error = {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
        return web.json_response(error, status=429, headers={"Retry-After": str(wait_s)})

    @staticmethod
    def _reset(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        if transport is not None:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()
        return web.Response()
