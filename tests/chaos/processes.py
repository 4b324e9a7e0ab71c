"""Starting, killing and waiting for what a round runs in other processes."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

__all__ = ["EndpointProcess", "KillPlan", "Running", "endpoint", "forked", "program", "run_until_done"]

_ROOT = Path(__file__).parents[2]
_PATH = os.pathsep.join(filter(None, (str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", ""))))
_LIMIT_S = 240.0
_IDLE_S = 60.0
_LINE_BYTES = 330


@dataclass(frozen=True, slots=True)
class EndpointProcess:
    """A running endpoint: its URL for clients, and its ledger."""

    url: str
    ledger: Path

    def behave(self, faults: float) -> None:
        """Set the share of requests that meet a fault."""
        self._ask("/behave", json.dumps({"faults": faults}).encode())

    def settle(self) -> None:
        """Wait until no request is under way, those of dead clients included."""
        for _ in range(400):
            if self._ask("/busy") == 0:
                return
            time.sleep(0.05)
        raise TimeoutError("the endpoint is still busy after 20 s")

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(self.url.removesuffix("/v1") + path, data=body, timeout=10) as answer:
            return json.load(answer)


@contextlib.contextmanager
def endpoint(
    directory: Path, seed: str, *, faults: float = 0.15, latency_ms: tuple[int, int] = (40, 160)
) -> Iterator[EndpointProcess]:
    """Run an endpoint while the block lasts."""
    ledger = directory / "ledger.jsonl"
    command = [sys.executable, "-m", "tests.chaos.endpoint", "--ledger", str(ledger), "--seed", seed]
    command += ["--faults", str(faults), "--low-ms", str(latency_ms[0]), "--high-ms", str(latency_ms[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment()) as process:
        try:
            assert process.stdout is not None
            yield EndpointProcess(f"http://127.0.0.1:{int(process.stdout.readline())}/v1", ledger)
        finally:
            process.kill()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": _PATH}


class Running(Protocol):
    """A started worker, as `multiprocessing` shows it."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...

    def kill(self) -> None: ...


def forked(target: Callable[[Any], None], argument: object) -> Running:
    """Start `target` in a process of its own that has everything imported already, and so starts in milliseconds."""
    os.environ["PYTHONPATH"] = _PATH  # the server of forks reads it when it starts
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.chaos.worker", "tests.chaos.rivals"])
    process = context.Process(target=target, args=(argument,))
    process.start()
    return process


class _Program:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def join(self, timeout: float | None = None) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def program(command: Sequence[str], log: Path) -> Running:
    """Start a program; what it says goes to `log`."""
    with log.open("ab") as said:
        return _Program(subprocess.Popen(command, stdout=said, stderr=said, env=_environment()))


@dataclass(slots=True)
class KillPlan:
    """When to kill: `kills` times at most, at moments that `rng` draws.

    Some come some time after a start, most come when the endpoint has counted some more requests and a moment has
    passed, so that they strike at work on a slow machine too. `done_at` and `ended_at` are the moments of kills and
    of workers that failed by themselves.
    """

    rng: random.Random
    kills: int
    ledger: Path
    done_at: list[float] = field(default_factory=list)
    ended_at: list[float] = field(default_factory=list)

    def attend(self, worker: Running) -> None:
        """Wait for the end of `worker`, and bring it about when that is planned."""
        if len(self.done_at) < self.kills:
            self._wait_for_moment(worker)
            if worker.is_alive() and worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL)
                self.done_at.append(time.monotonic())
        worker.join(_LIMIT_S)
        if worker.is_alive():
            worker.kill()
            raise TimeoutError(f"a worker was not done after {_LIMIT_S:g} s")

    def wait_for_requests(self, worker: Running, count: int) -> None:
        """Wait until the endpoint has counted about `count` more requests, `worker` has ended, or a minute is over."""
        enough, until = self._counted() + count * _LINE_BYTES, time.monotonic() + _IDLE_S
        while worker.is_alive() and self._counted() < enough and time.monotonic() < until:
            worker.join(0.01)

    def _wait_for_moment(self, worker: Running) -> None:
        if self.rng.random() < 0.25:
            worker.join(self.rng.uniform(0.05, 2.5))
            return
        self.wait_for_requests(worker, self.rng.randint(1, 80))
        worker.join(self.rng.uniform(0, 0.15))

    def _counted(self) -> int:
        return self.ledger.stat().st_size if self.ledger.exists() else 0


def run_until_done(
    start: Callable[[], Running], plan: KillPlan, *, failures: int = 0, meanwhile: Callable[[], None] | None = None
) -> int:
    """Start a worker again and again until one ends by itself. Returns how many were started.

    `failures` workers may end with an error of their own; one more is an error here. `meanwhile` is called after
    each start.
    """
    for started in range(1, plan.kills + failures + 2):
        worker = start()
        if meanwhile is not None:
            meanwhile()
        plan.attend(worker)
        if worker.exitcode == 0:
            return started
        if worker.exitcode != -signal.SIGKILL:
            plan.ended_at.append(time.monotonic())
            failures -= 1
            if failures < 0:
                raise RuntimeError(f"a worker ended by itself with exit code {worker.exitcode}")
    raise RuntimeError("no worker got through")
