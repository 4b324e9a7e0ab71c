"""`stubllm`, a mock server of other people's making, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any


class StubLlm:
    """Serves `fixtures` in all three vendors' shapes; use it as a context manager."""

    def __init__(self, folder: Path, fixtures: list[dict[str, Any]]) -> None:
        (folder / "fixtures.json").write_text(json.dumps({"fixtures": fixtures}))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        command = "from stubllm.cli import cli; cli()"
        arguments = ["serve", "--host", "127.0.0.1", "--port", str(self._port), "--fixture-dir", str(folder)]
        self._command = [sys.executable, "-c", command, *arguments]
        self._log = folder / "log.txt"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> StubLlm:
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
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return
        raise AssertionError(f"stubllm did not start: {self._log.read_text()}")

    def counted(self) -> dict[str, int]:
        """How often each fixture was served, by the server's own count."""
        with urllib.request.urlopen(f"{self.url}/_stats", timeout=10) as answer:
            counts: dict[str, int] = json.load(answer)["fixture_call_counts"]
            return counts
