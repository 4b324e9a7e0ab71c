"""Real servers on loopback, each in a directory and on a port of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
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


class PostgresqlServer:
    """A PostgreSQL cluster of its own, run by `postgres` where the tests are run by root."""

    def __init__(self) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
        if not programs:
            pytest.fail("PostgreSQL is missing; apt-get install postgresql")
        self._programs = programs[-1].parent
        self._user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self._data = Path(tempfile.mkdtemp(prefix="pg-"))
        if self._user:
            shutil.chown(self._data, "postgres", "postgres")
        self.port = free_port()
        self.uri = f"postgresql://keeper:hunter2@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Make the cluster if it is not there, start it, and wait until it answers."""
        if not (self._data / "db").exists():
            secret = self._data / "password"
            secret.write_text("hunter2")
            secret.chmod(0o644)
            made = ("-D", f"{self._data}/db", "-U", "keeper", f"--pwfile={secret}", "-A", "scram-sha-256")
            self._call("initdb", *made, "--no-sync")
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._data}"
        self._call("pg_ctl", "-D", f"{self._data}/db", "-w", "-l", f"{self._data}/log", "-o", options, "start")

    def stop(self) -> None:
        """End it as a crash would."""
        self._call("pg_ctl", "-D", f"{self._data}/db", "-w", "-m", "immediate", "stop")

    def remove(self) -> None:
        """Stop, and delete the cluster."""
        self.stop()
        shutil.rmtree(self._data)

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement behind the journal's back."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._user, str(self._programs / program), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            cwd="/",
        )
        assert done.returncode == 0, done.stderr


class CuttingProxy:
    """Passes bytes to a server and back. After `cut()`, the next reply is swallowed and its connection cut."""

    def __init__(self, port: int) -> None:
        self._upstream_port = port
        self._cutting = False
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._cutting = True

    async def stop(self) -> None:
        """Stop, once all clients have hung up."""
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        if self._serving:
            await asyncio.wait(self._serving, timeout=10)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        back = asyncio.create_task(self._back(up_reader, writer))
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                up_writer.write(data)
        up_writer.close()
        await back
        for each in (up_writer, writer):
            each.close()
            with contextlib.suppress(ConnectionError):
                await each.wait_closed()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self._cutting:
                    self._cutting = False
                    writer.transport.abort()
                    return
                writer.write(data)
