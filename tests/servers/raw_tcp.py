"""A raw TCP server with a script: resets, stalls, drips, short bodies, bad chunking, and ordinary answers.

It runs in a thread of its own, so that clients on any loop and thread may use it, and it counts what arrived.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """Bytes to write, piece by piece, and how the connection ends."""

    pieces: tuple[bytes, ...]
    end: Literal["keep", "close", "reset", "stall"] = "keep"
    pause_s: float = 0.0


def answer(
    body: bytes | str | Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    end: Literal["keep", "close", "reset", "stall"] = "keep",
) -> Reply:
    """A well-formed HTTP answer."""
    payload = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    named = {"Content-Type": "application/json", "Content-Length": str(len(payload)), **(headers or {})}
    return Reply((_head(status, named) + payload,), end)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


RESET_BEFORE = Reply((), "reset")
STALL_BEFORE = Reply((), "stall")
CLOSE_BEFORE = Reply((), "close")
RESET_INSIDE = Reply((_head(200, {"Content-Length": "500"}) + b'{"choices": [', b'{"mess'), "reset")
SHORT_BODY = Reply((_head(200, {"Content-Length": "500"}) + b'{"choices": []}',), "close")
BAD_CHUNKS = Reply((_head(200, {"Transfer-Encoding": "chunked"}) + b"zz\r\n{}\r\n0\r\n\r\n",), "close")
CUT_CHUNKS = Reply((_head(200, {"Transfer-Encoding": "chunked"}) + b'5\r\n{"a":',), "close")
BAD_GZIP = Reply((_head(200, {"Content-Encoding": "gzip", "Content-Length": "9"}) + b"not gzip!",), "close")
NOT_HTTP = Reply((b"SSH-2.0-OpenSSH_9.2\r\n",), "close")
DRIP = Reply((_head(200, {"Content-Length": "100000"}), *[b" "] * 2_000), "close", pause_s=0.01)


class RawServer:
    """Plays `script` for each request; use it as a context manager."""

    def __init__(self, script: Callable[[Received], Reply], tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self.received: list[Received] = []
        self.open_connections = 0
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> RawServer:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def arrived(self, count: int) -> None:
        """Waits until `count` requests have arrived."""
        assert await asyncio.to_thread(self._wait_for, count), f"{len(self.received)} of {count} requests arrived"

    def _wait_for(self, count: int) -> bool:
        with self._news:
            return self._news.wait_for(lambda: len(self.received) >= count, timeout=10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open_connections += 1
        self.connections += 1
        try:
            await self._talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open_connections -= 1
            self._tasks.discard(task)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await _read(reader)
            with self._news:
                self.received.append(request)
                self._news.notify_all()
            reply = self._script(request)
            for piece in reply.pieces:
                writer.write(piece)
                await writer.drain()
                if reply.pause_s:
                    await asyncio.sleep(reply.pause_s)
            if reply.end == "stall":
                await self._stop.wait()
            if reply.end == "reset":
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if reply.end != "keep":
                return


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)
