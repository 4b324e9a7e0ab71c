"""`aimock`, an independent mock server with faults and a journal of what it received (npm, runs on Node)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

HOW_TO_INSTALL = "make parts (or set AIMOCK to the path of an llmock 1.43.0)"
_PARTS = Path(__file__).parents[2] / ".parts" / "node_modules" / ".bin"


class Aimock:
    """Serves `fixtures` in all three vendors' shapes; use it as a context manager."""

    def __init__(self, folder: Path, fixtures: list[dict[str, Any]]) -> None:
        program = os.environ.get("AIMOCK") or shutil.which("llmock", path=f"{_PARTS}{os.pathsep}{os.environ['PATH']}")
        assert program, f"llmock is not on this machine: {HOW_TO_INSTALL}"
        path = folder / "fixtures.json"
        path.write_text(json.dumps({"fixtures": fixtures}))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._command = [program, "--port", str(self._port), "--fixtures", str(path), "--strict", "--journal-max", "0"]
        self._log = folder / "log.txt"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Aimock:
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
        for _ in range(300):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return
        raise AssertionError(f"aimock did not start: {self._log.read_text()}")

    def journal(self) -> list[dict[str, Any]]:
        """Every request it received, by its own journal."""
        with urllib.request.urlopen(f"{self.url}/__aimock/journal", timeout=10) as answer:
            entries: list[dict[str, Any]] = json.load(answer)
            return entries
