"""A mock server of other people's making, in a process of its own, on a free port."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class MockProcess:
    """A context manager; a subclass says by what command the server starts. `name` is for messages."""

    name = "the server"
    longest_start_s = 10.0

    def __init__(self, folder: Path, fixtures: list[dict[str, Any]]) -> None:
        path = folder / "fixtures.json"
        path.write_text(json.dumps({"fixtures": fixtures}))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._command = self.command(self._port, path)
        self._log = folder / "log.txt"

    def command(self, port: int, fixtures: Path) -> list[str]:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(10)

    async def ready(self) -> None:
        """Waits until it listens."""
        for _ in range(int(self.longest_start_s / 0.05)):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return
        raise AssertionError(f"{self.name} did not start: {self._log.read_text()}")

    def told(self, path: str) -> Any:
        """The JSON that the server gives under `path`."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
            return json.load(answer)
