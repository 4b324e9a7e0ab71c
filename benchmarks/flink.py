"""Latency and cost of agents on a Flink cluster, beside PyFlink's own `AsyncFunction`: `make flink-latency`.

Both do the same call for the same events on the same cluster, one after the other. Latency is from the moment that an
event is due at Flink's source until it is read from its sink; both are sockets of this process. CPU is that of the
TaskManagers and their Python workers for an event. Before anything counts the job has had its rate for a while, as the
JVMs compile for half a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.flink.cluster import FlinkCluster, Settings
from tests.flink.processes import free_port, start, wait_until

__all__ = ["main"]

_REPOSITORY = Path(__file__).parents[1]
_JOB = Path(__file__).parent / "flink_job.py"
_ENDPOINT = _REPOSITORY / "tests" / "flink" / "endpoint.py"
_COLUMNS = (
    *("way", "rate", "slow_one_in", "keys", "bundle_ms", "buffer_ms"),
    *("p50_ms", "p90_ms", "p99_ms", "per_s", "cpu_ms", "checkpoint_ms", "state_kb"),
)
_FIRST, _FIRST_RATE = 200, 40
_ENDED = ("FINISHED", "FAILED", "CANCELED")


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement.

    Attributes:
        way: `agent` or `async`.
        rate: events a second.
        slow_one_in: one call in so many takes 5 s instead of 200 ms; 0 for none.
        keys: how many keys the events have.
        seconds: for how long events are sent that count.
        warm_s: for how long events are sent before them.
        bundle_ms: `python.fn-execution.bundle.time`, for how long PyFlink gathers elements.
        buffer_ms: `execution.buffer-timeout.interval`, for how long Flink gathers what goes to another task.
    """

    way: str
    rate: int
    slow_one_in: int
    keys: int = 500
    seconds: int = 30
    warm_s: int = 30
    bundle_ms: int = 25
    buffer_ms: int = 10


@dataclass(slots=True)
class _Traffic:
    """Sends numbered lines at a steady rate to the source, and takes the time at which each comes back.

    The first `warming` of them warm the job up: when all of them are back, those begin that count.
    """

    rate: int
    warming: int
    events: int
    sent: dict[int, float] = field(default_factory=dict)
    seen: dict[int, float] = field(default_factory=dict)
    warm: threading.Event = field(default_factory=threading.Event)

    def send(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send(connection, 0, _FIRST, _FIRST_RATE)
            wait_until(lambda: len(self.seen) == _FIRST, 180, "the workers to answer")
            self._send(connection, _FIRST, self.warming, self.rate)
            wait_until(lambda: len(self.seen) == self.warming, 180, "the job to be warm")
            self.warm.set()
            self._send(connection, self.warming, self.warming + self.events, self.rate)

    def _send(self, connection: socket.socket, first: int, end: int, rate: int) -> None:
        begin = time.monotonic()
        for n in range(first, end):
            due = begin + (n - first) / rate
            time.sleep(max(0.0, due - time.monotonic()))
            self.sent[n] = due
            connection.sendall(b"%d\n" % n)

    def receive(self, server: socket.socket) -> None:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                if line.strip():
                    self.seen[int(line)] = time.monotonic()


class _CpuMeter:
    """CPU seconds of TaskManagers and their Python workers while it is entered."""

    def __init__(self, cluster: FlinkCluster) -> None:
        self._cluster = cluster
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _CpuMeter:
        self._first = self._look()
        self._thread.start()
        return self

    def __exit__(self, *exit_info: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """So far."""
        return sum(used - self._first.get(pid, 0.0) for pid, used in self._last.items())

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self._last.update(self._look())

    def _look(self) -> dict[int, float]:
        found = {}
        for group in self._cluster.task_managers:
            for pid in group.pids():
                with contextlib.suppress(OSError):
                    told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    found[pid] = (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")
        return found


def measure(cluster: FlinkCluster, root: Path, case: Case) -> dict[str, Any]:
    """Run one job to its end."""
    root.mkdir(parents=True)
    port = free_port()
    traffic = _Traffic(case.rate, _FIRST + case.rate * case.warm_s, case.rate * case.seconds)
    command = [str(cluster.settings.python), str(_ENDPOINT), str(port), "latency", "0", str(case.slow_one_in)]
    endpoint = start("endpoint", command, log=root / "endpoint.log", limit_s=600)
    source, sink = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    for server, serve in ((source, traffic.send), (sink, traffic.receive)):
        threading.Thread(target=serve, args=(server,), daemon=True).start()
    try:
        return _submitted(cluster, case, traffic, f"http://127.0.0.1:{port}/v1", source, sink)
    finally:
        endpoint.stop()
        source.close()
        sink.close()


def _submitted(
    cluster: FlinkCluster, case: Case, traffic: _Traffic, endpoint: str, source: socket.socket, sink: socket.socket
) -> dict[str, Any]:
    given = {
        "way": case.way,
        "endpoint": endpoint,
        "source": source.getsockname()[1],
        "sink": sink.getsockname()[1],
        "keys": case.keys,
    }
    arguments = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    options = [
        f"-Dpython.fn-execution.bundle.time={case.bundle_ms}",
        f"-Dexecution.buffer-timeout.interval={case.buffer_ms}ms",
    ]
    job = cluster.submit(_JOB, arguments, files=[_REPOSITORY / "src"], options=options)
    wait_until(traffic.warm.is_set, 240 + case.warm_s, "the workers to be warm")
    with _CpuMeter(cluster) as cpu:
        wait_until(lambda: cluster.job_state(job) in _ENDED, case.seconds + 240, f"the end of {case}")
    if cluster.job_state(job) != "FINISHED":
        raise RuntimeError(cluster.rest(f"/jobs/{job}/exceptions")["root-exception"][:3000])
    checkpoints = cluster.checkpoints(job)["summary"]
    return {
        **asdict(case),
        **_figures(traffic),
        "cpu_ms": round(cpu.seconds * 1000 / traffic.events, 2),
        "checkpoint_ms": checkpoints["end_to_end_duration"]["max"],
        "state_kb": round(checkpoints["state_size"]["max"] / 1024),
    }


def _figures(traffic: _Traffic) -> dict[str, Any]:
    end = traffic.warming + traffic.events
    missing = end - len(traffic.seen)
    if missing:
        raise RuntimeError(f"{missing} of {traffic.events} events did not come out")
    timed = range(traffic.warming, end)
    took = sorted((traffic.seen[n] - traffic.sent[n]) * 1000 for n in timed)
    seconds = max(traffic.seen.values()) - traffic.sent[traffic.warming]
    quantiles = {f"p{share}_ms": round(took[len(took) * share // 100]) for share in (50, 90, 99)}
    return {"events": traffic.events, **quantiles, "per_s": round(traffic.events / seconds, 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every case and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flink", description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--slow-one-in", type=int, nargs="+", default=[97, 0])
    parser.add_argument("--ways", nargs="+", default=["async", "agent"])
    parser.add_argument("--keys", type=int, nargs="+", default=[500])
    parser.add_argument("--bundle-ms", type=int, nargs="+", default=[25])
    parser.add_argument("--buffer-ms", type=int, nargs="+", default=[10])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--warm", type=int, default=30)
    parser.add_argument("--python", type=Path, default=Path(".venv-flink/bin/python"))
    parser.add_argument("--root", type=Path, default=Path(".cache/flink-latency"))
    parser.add_argument("--json", type=Path, default=Path(".cache/flink-latency.json"))
    given = parser.parse_args(arguments)
    cases = [
        Case(way, rate, slow, keys, given.seconds, given.warm, bundle_ms, buffer_ms)
        for slow in given.slow_one_in
        for rate in given.rates
        for keys in given.keys
        for bundle_ms in given.bundle_ms
        for buffer_ms in given.buffer_ms
        for way in given.ways
    ]
    shutil.rmtree(given.root, ignore_errors=True)
    given.root.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ["PROOF_KEY"] = "not-a-secret"
    found = []
    settings = Settings(given.python.absolute(), limit_s=120 + 400 * len(cases))
    print("  ".join(_COLUMNS))
    with FlinkCluster(given.root.absolute() / "cluster", settings) as cluster:
        for number, case in enumerate(cases):
            cluster.mend()
            found.append(measure(cluster, given.root.absolute() / str(number), case))
            print("  ".join(str(found[-1][name]).rjust(len(name)) for name in _COLUMNS), flush=True)
            given.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
