"""Processes in groups of their own, with a hard limit, always ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Group", "free_port", "start", "wait_until"]


@dataclass(frozen=True, slots=True)
class Group:
    """A process group that lives at most until its limit.

    The leader is coreutils' `timeout`, so that the group ends even when whoever started it is gone.
    """

    name: str
    leader: subprocess.Popen[bytes]

    def pids(self) -> list[int]:
        """Every living process of the group but the leader."""
        return [pid for pid, group in _living() if group == self.leader.pid and pid != self.leader.pid]

    def running(self, word: str) -> list[int]:
        """Living processes of the group whose command line holds `word`."""
        return [pid for pid in self.pids() if word in _command(pid)]

    def stop(self) -> None:
        """Kill the whole group, orphans included. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.leader.pid, signal.SIGKILL)
        self.leader.wait(10)
        wait_until(lambda: not self.pids(), 10, f"the end of {self.name}")


def start(
    name: str, command: Sequence[str], *, log: Path, limit_s: float, env: Mapping[str, str] | None = None
) -> Group:
    """Start `command` in a group of its own that ends after `limit_s` seconds at the latest."""
    with log.open("ab") as out:
        leader = subprocess.Popen(
            ["timeout", "--kill-after=2", f"{limit_s:g}", *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=None if env is None else {**os.environ, **env},
            start_new_session=True,
        )
    return Group(name, leader)


def wait_until(done: Callable[[], bool], limit_s: float, what: str) -> None:
    """Look every 100 ms. Raises `TimeoutError` that names `what` when it has not come after `limit_s` seconds."""
    end = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit_s:g} s for {what}")
        time.sleep(0.1)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _living() -> list[tuple[int, int]]:
    """Process and group of every process that is no zombie."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                if state != "Z":
                    found.append((int(entry.name), int(group)))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
