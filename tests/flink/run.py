"""One run of the proof's job: its endpoint, its journal, its faults, its account."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.flink.account import Account, read_lines, settle
from tests.flink.cluster import FlinkCluster
from tests.flink.processes import Group, free_port, start, wait_until

__all__ = ["Run", "Shape"]

_REPOSITORY = Path(__file__).parents[2]
_JOB = Path(__file__).parent / "jobs" / "proof_job.py"
_ENDED = ("FINISHED", "FAILED", "CANCELED")


@dataclass(frozen=True, slots=True)
class Shape:
    """How much a run does, and for how long it may."""

    events: int = 700
    rate: int = 25
    keys: int = 50
    parallelism: int = 2
    limit_s: float = 400


class Run:
    """A context manager: whatever it started is dead afterwards."""

    def __init__(self, cluster: FlinkCluster, root: Path, seed: str, shape: Shape) -> None:
        self.cluster = cluster
        self.root = root
        self.seed = seed
        self.shape = shape
        self.job = ""
        self.in_flight_at_kill = 0
        self.killed_after_checkpoints: int | None = None
        self._endpoint_port = free_port()
        self._redis_port = free_port()
        self._groups: list[Group] = []
        self._redis: Group | None = None
        self._end = time.monotonic() + shape.limit_s

    def __enter__(self) -> Run:
        self.root.mkdir(parents=True)
        limit_s = self.shape.limit_s + 60
        command = [str(self.cluster.settings.python), str(Path(__file__).parent / "endpoint.py")]
        self._groups.append(
            start(
                "endpoint",
                [*command, str(self._endpoint_port), self.seed],
                log=self.root / "endpoint.log",
                limit_s=limit_s,
            )
        )
        self.start_redis()
        wait_until(lambda: self.served() is not None, 20, "the endpoint")
        return self

    def __exit__(self, *exit_info: object) -> None:
        try:
            if self.job and self.cluster.is_up and self.state() not in _ENDED:
                self.cluster.rest(f"/jobs/{self.job}", method="PATCH")
        finally:
            for group in self._groups:
                group.stop()

    def submit(
        self,
        *,
        options: Sequence[str] = (),
        further: Sequence[str] = (),
        parallelism: int | None = None,
        keyed_otherwise: bool = False,
    ) -> None:
        """`flink run -d` of the job; call it again with `-s` to go on from a savepoint or checkpoint.

        Jobs of even seeds give `run_agent` its keys with `key_by=`, those of odd ones a keyed stream.
        """
        shape = self.shape
        arguments = {
            "endpoint": f"http://127.0.0.1:{self._endpoint_port}/v1",
            "journal": f"redis://127.0.0.1:{self._redis_port}/0?lease_s=5",
            "out": str(self.root / "out"),
            "events": shape.events,
            "rate": shape.rate,
            "keys": shape.keys,
            "parallelism": parallelism or shape.parallelism,
            "keys-from": "call" if (self.seed[-1] in "02468") != keyed_otherwise else "stream",
        }
        given = [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
        self.job = self.cluster.submit(_JOB, [*given, *further], files=[_REPOSITORY / "src"], options=options)

    def start_redis(self) -> None:
        """Start the journal's server on what it has on disk."""
        command = f"redis-server --port {self._redis_port} --bind 127.0.0.1 --appendonly yes --appendfsync always"
        self._redis = start(
            "redis",
            [*command.split(), "--save", "", "--dir", str(self.root)],
            log=self.root / "redis.log",
            limit_s=self.shape.limit_s + 60,
        )
        self._groups.append(self._redis)

    def kill_redis(self) -> None:
        """`kill -9` the journal's server."""
        assert self._redis is not None
        self._redis.stop()

    def cut_endpoint(self, seconds: float) -> None:
        """Have the endpoint cut every connection for some seconds."""
        self._ask(f"/dead?seconds={seconds:g}", post=True)

    def served(self) -> list[dict[str, Any]] | None:
        """Every request that the endpoint saw, or `None` while it is not up."""
        try:
            found: list[dict[str, Any]] = json.loads(self._ask("/log"))
        except OSError:
            return None
        return found

    def state(self) -> str:
        """State of the job."""
        return self.cluster.job_state(self.job)

    def await_calls(self, share: float) -> None:
        """Wait until the endpoint has seen `share` of the events."""
        self._until(lambda: len(self.served() or ()) >= share * self.shape.events, f"{share:.0%} of the calls")

    def await_checkpoints(self, count: int) -> None:
        """Wait until `count` checkpoints are complete."""
        self._until(lambda: self.completed_checkpoints() >= count, f"{count} checkpoints")

    def await_state(self, state: str) -> None:
        """Wait until the job is in `state`."""
        self._until(lambda: self.state() == state, f"the job to be {state}")

    def await_end(self) -> None:
        """Wait until the job has finished. Raises `RuntimeError` with its last exception when it failed."""
        self._until(lambda: self.cluster.is_up and self.state() in _ENDED, "the end of the job")
        if self.state() != "FINISHED":
            raise RuntimeError(self.cluster.rest(f"/jobs/{self.job}/exceptions")["root-exception"][:3000])

    def completed_checkpoints(self) -> int:
        """How many checkpoints of the job are complete."""
        count: int = self.cluster.checkpoints(self.job)["counts"]["completed"]
        return count

    def note_kill(self, pids: Sequence[int], *, freeze: bool) -> None:
        """Remember how many calls of these processes the endpoint has open right now.

        With `freeze` they are stopped first, so that the number is that of the kill.
        """
        for pid in pids if freeze else ():
            os.kill(pid, signal.SIGSTOP)
        ports = _ports_of(pids)
        open_calls = [one for one in self.served() or () if one["ended"] is None and one["port"] in ports]
        self.in_flight_at_kill = len(open_calls)
        self.killed_after_checkpoints = self.completed_checkpoints()

    def account(self) -> Account:
        """What came out, against what the endpoint counted."""
        out = self.root / "out"
        served = self.served() or []
        (self.root / "served.json").write_text(json.dumps(served))
        lines = [read_lines(out / name) for name in ("main", "traces", "errors")]
        return settle(self.shape.events, *lines, served)

    def report(self) -> dict[str, Any]:
        """The row as JSON."""
        found = self.cluster.checkpoints(self.job)
        return {
            "seed": self.seed,
            "events": self.shape.events,
            **asdict(self.account()),
            "in_flight_at_kill": self.in_flight_at_kill,
            "killed_after_checkpoints": self.killed_after_checkpoints,
            "restarts": found["counts"]["restored"],
            "longest_checkpoint_ms": found["summary"]["end_to_end_duration"]["max"],
        }

    def _ask(self, path: str, *, post: bool = False) -> bytes:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._endpoint_port}{path}", method="POST" if post else "GET"
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            told: bytes = answer.read()
            return told

    def _until(self, done: Any, what: str) -> None:
        def reached() -> bool:
            try:
                return bool(done())
            except OSError:
                return False

        wait_until(reached, max(1.0, self._end - time.monotonic()), what)


def _ports_of(pids: Sequence[int]) -> set[int]:
    """Local ports of the TCP connections that these processes hold."""
    listed = subprocess.run(["ss", "-Htnp"], capture_output=True, text=True, check=True).stdout
    found = set()
    for line in listed.splitlines():
        if any(f"pid={pid}," in line for pid in pids):
            found.add(int(line.split()[3].rpartition(":")[2]))
    return found
