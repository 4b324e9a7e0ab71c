"""A server in a process of its own that never outlives this one."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

__all__ = ["ServerChild", "ServerStartError"]


class ServerStartError(Exception):
    """The server did not start; the message holds the end of its log."""


class ServerChild:
    """Runs `python -m MODULE ARGS` and waits until it prints its endpoint as JSON; a context manager.

    The child ends when its standard input does, so it ends with this process even when that is killed.

    Attributes:
        endpoint: where it listens, such as `http://127.0.0.1:40123`.
        pid: its process id.
    """

    def __init__(self, module: str, args: Sequence[str], *, log: Path, timeout_s: float = 60.0) -> None:
        self._log = log
        with log.open("wb") as log_file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                start_new_session=True,  # Ctrl-C is for the parent, which ends the child when it is done
            )
        self.pid = self._process.pid
        try:
            self.endpoint = self._wait_for_endpoint(timeout_s)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ServerChild:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the child and wait for its end. Idempotent."""
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]

    def _wait_for_endpoint(self, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s  # noqa: TID251 - a real process is waited for
        said = b""
        out = self._process.stdout.fileno()  # type: ignore[union-attr]
        while not said.endswith(b"\n"):
            left = deadline - time.monotonic()  # noqa: TID251
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise ServerStartError(f"the server did not start within {timeout_s:g} s{self._log_end()}")
            chunk = os.read(out, 4096)
            if not chunk:
                raise ServerStartError(f"the server ended while starting{self._log_end()}")
            said += chunk
        return str(json.loads(said)["endpoint"])

    def _log_end(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()[-3:]
        return "".join(f"\n  {line}" for line in lines)
