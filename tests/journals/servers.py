"""Real servers on loopback, each in a directory and on a port of its own."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
import redis


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """A `redis-server` that syncs every write, and a plain client to look behind the journal's back."""

    def __init__(self, directory: Path, password: str = "") -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.fail("redis-server is missing; apt-get install redis-server")
        self.port = free_port()
        self._command = [
            *(program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(directory)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
            *(("--requirepass", password) if password else ()),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.uri = f"redis://127.0.0.1:{self.port}/0"
        self.client = redis.Redis(port=self.port, password=password or None)

    def start(self) -> None:
        """Start, and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.client.ping()
                return
            except redis.ConnectionError:
                assert self._process.poll() is None, "redis-server ended while starting"
                time.sleep(0.05)
        pytest.fail("redis-server did not answer within 10 s")

    def stop(self) -> None:
        """Kill it, as a power cut would."""
        self.client.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)


class CuttingProxy:
    """Passes bytes to a server and back. After `cut()`, the next reply is swallowed and its connection cut."""

    def __init__(self, port: int) -> None:
        self._upstream_port = port
        self._cutting = False
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._cutting = True

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        back = asyncio.create_task(self._back(up_reader, writer))
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                up_writer.write(data)
        up_writer.close()
        await back
        writer.close()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self._cutting:
                    self._cutting = False
                    writer.transport.abort()
                    return
                writer.write(data)
