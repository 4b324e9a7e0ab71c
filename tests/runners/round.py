"""One round: an endpoint, a journal, and one or more runs of the pipeline, each in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.chaos.audit import Attempt, journal_attempts
from tests.flink.processes import Group, start, wait_until
from tests.runners.account import Account, settle
from tests.runners.shape import Shape

__all__ = ["ENVIRONMENT", "Round", "RunFailed"]

_REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = {
    "PYTHONPATH": f"{_REPOSITORY / 'src'}{os.pathsep}{_REPOSITORY}",
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    "PYTHONWARNINGS": "ignore",
}
"""For every process of a round: Beam's worker pool starts its workers as plain `python`."""


class RunFailed(RuntimeError):
    """A run of the pipeline ended with an error, or not at all; `log` is everything that it said."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(f"{message}\n{log[-3000:]}")
        self.log = log


class Round:
    """A context manager: whatever it started is dead afterwards.

    Attributes:
        journal: URI of the journal; with another than a file of the round's own, `kept` says what it holds.
        url: where the endpoint is reached.
    """

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.folder = folder
        self.shape = shape
        self.kills: list[float] = []
        self.ledger = folder / "ledger.jsonl"
        self.journal = f"sqlite:///{folder / 'journal.db'}"
        self.kept: Callable[[], list[Attempt]] = lambda: journal_attempts(folder / "journal.db")
        self._outs: list[Path] = []
        self._groups: list[Group] = []
        self.url = self._url = ""

    @property
    def runs(self) -> int:
        """How often the pipeline was started."""
        return len(self._outs)

    def __enter__(self) -> Round:
        shape = self.shape
        command = [sys.executable, "-m", "tests.chaos.endpoint", "--ledger", str(self.ledger), "--seed", "suite"]
        command += ["--faults", str(shape.faults)]
        command += ["--low-ms", str(shape.latency_ms[0]), "--high-ms", str(shape.latency_ms[1])]
        log = self.folder / "endpoint.log"
        try:
            self.start("endpoint", command, limit_s=3 * shape.limit_s + 60)
            wait_until(lambda: log.exists() and log.read_text().strip().isdigit(), 20, "the endpoint")
        except BaseException:
            self.__exit__()
            raise
        self.url = self._url = f"http://127.0.0.1:{log.read_text().strip()}"
        return self

    def __exit__(self, *exit_info: object) -> None:
        for group in reversed(self._groups):
            group.stop()

    def start(self, name: str, command: Sequence[str], *, limit_s: float | None = None) -> Group:
        """Start a process that lives no longer than the round."""
        log = self.folder / f"{name}.log"
        limit_s = limit_s or self.shape.limit_s
        group = start(name, command, log=log, limit_s=limit_s, env=ENVIRONMENT)
        self._groups.append(group)
        return group

    def run(self, arguments: Sequence[str], *, official_api: bool = False, at: Sequence[str] = ()) -> None:
        """Run the pipeline to its end. Raises `RunFailed` with the end of its log."""
        self.await_end(self.begin(arguments, official_api=official_api, at=at))

    def begin(self, arguments: Sequence[str], *, official_api: bool = False, at: Sequence[str] = ()) -> Group:
        """Start the pipeline, with the command `at` in front; again, it runs again on the same journal."""
        out = self.folder / f"out-{len(self._outs) + 1}"
        out.mkdir()
        self._outs.append(out)
        command = [*at, sys.executable, "-m", "tests.runners.job", "--out", str(out), "--url", f"{self.url}/v1"]
        command += ["--journal", self.journal, "--shape", json.dumps(asdict(self.shape))]
        command += ["--official-api"] * official_api
        return self.start(f"run-{len(self._outs)}", [*command, "--", *arguments])

    def await_end(self, run: Group) -> None:
        """Wait until `run` has ended. Raises `RunFailed` unless it ended well."""
        code = run.leader.wait(self.shape.limit_s + 30)
        if code:
            log = (self.folder / f"{run.name}.log").read_text(errors="replace")
            said = "reached its time limit" if code in (124, 137) else f"ended with status {code}"
            raise RunFailed(f"{run.name} {said}", log)

    def await_calls(self, share: float) -> None:
        """Wait until the endpoint has ended `share` of the calls."""
        wanted = share * self.shape.total * self.shape.calls

        def reached() -> bool:
            return self.ledger.exists() and self.ledger.read_bytes().count(b"\n") >= wanted

        wait_until(reached, self.shape.limit_s, f"{share:.0%} of the calls")

    def kill(self, pids: Sequence[int]) -> None:
        """`kill -9`, remembered for the account."""
        self.kills.append(time.monotonic())
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def account(self) -> Account:
        """What came out, once the endpoint has ended every request."""
        wait_until(lambda: self._busy() == 0, 20, "the endpoint to end what is under way")
        return settle(self.shape, self.ledger, self.kept(), self._outs, self.kills)

    def _busy(self) -> int:
        with urllib.request.urlopen(f"{self._url}/busy", timeout=10) as answer:
            busy: int = json.load(answer)
            return busy
