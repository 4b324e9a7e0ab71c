"""An endpoint that answers at once: the smallest HTTP/1.1 server that chat completions need.

`python -m benchmarks.endpoint` prints its port and serves until its standard input ends. It is a process of its own, so
that its work is not counted as that of its caller.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.processes import environment, python
from benchmarks.wire import WIRE

__all__ = ["serving"]

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_ANSWER = _HEAD % len(WIRE) + WIRE


class _Connection(asyncio.Protocol):
    """Reads whole requests with a Content-Length; answers a POST with the completion, a GET with the count so far."""

    served = 0

    def __init__(self) -> None:
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end]).lower()
            _, _, length = head.partition(b"content-length:")
            whole = end + 4 + int(length.split(b"\r\n", 1)[0] or 0)
            if len(self._received) < whole:
                return
            del self._received[:whole]
            self._transport.write(self._answer(head))

    def _answer(self, head: bytes) -> bytes:
        if head.startswith(b"get"):
            count = b"%d" % _Connection.served
            return _HEAD % len(count) + count
        _Connection.served += 1
        return _ANSWER


@contextmanager
def serving() -> Iterator[str]:
    """The base URL of an endpoint in a process of its own, which ends with the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = python("-m", "benchmarks.endpoint")
    with subprocess.Popen(command, **pipes, text=True, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.stdin.close()
            process.wait(10)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
