"""The rows of the table: what goes wrong, and how often."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beam_agents.journals import open_journal
from tests.chaos.audit import Attempt, postgresql_attempts, redis_attempts
from tests.chaos.books import read_outputs
from tests.chaos.processes import EndpointProcess, KillPlan, Running, endpoint, forked, program, run_until_done
from tests.chaos.rounds import Result, examine, journal_path
from tests.chaos.worker import Spec, logged, run
from tests.chaos.workload import events
from tests.journals.servers import PostgresqlServer, RedisServer

__all__ = ["SCENARIOS", "Scenario", "Setting"]

_WITHOUT_ARROW = (
    "import runpy, sys; sys.modules['pyarrow'] = sys.modules['pandas'] = None; "
    "runpy.run_module('tests.chaos.worker', None, '__main__')"
)
"""Loading pyarrow under libfiu can hang in its allocator; neither Beam nor we need it, or pandas, here."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a round is given: an empty directory, a seed, how many keys, how many kills at most."""

    directory: Path
    seed: str
    keys: int
    kills: int

    @property
    def rng(self) -> random.Random:
        """Seeded; the same each time."""
        return random.Random(self.seed)

    def plan(self, server: EndpointProcess) -> KillPlan:
        """The kills of this round."""
        return KillPlan(self.rng, self.kills, server.ledger)

    def spec(self, server: EndpointProcess, **changes: Any) -> Spec:
        """What its workers do."""
        made = events(self.keys, self.seed)
        journal = f"sqlite:///{journal_path(self.directory)}"
        return replace(Spec(server.url, journal, str(self.directory), tuple(made)), **changes)

    @contextlib.contextmanager
    def serving(self) -> Iterator[EndpointProcess]:
        """The endpoint."""
        with endpoint(self.directory, self.seed) as server:
            yield server


Scenario = Callable[[Setting], Result]


def killed(setting: Setting) -> Result:
    """SIGKILL at random moments; sinks of both kinds, one to four batches, few or many calls in flight."""
    rng = setting.rng
    changes = {"eager": rng.random() < 0.5, "batches": rng.randint(1, 4), "max_in_flight": rng.choice((8, 24, 64))}
    return _round("worker killed", setting, **changes)


def bundles_retried(setting: Setting) -> Result:
    """Agents fail, their bundle fails before its commit, the runner runs it again; then kills as well."""
    runner = ("--runner=BundleBasedDirectRunner",)
    return _round(
        "bundle fails, runner retries", setting, failures=200, runner=runner, on_error="raise", agent_fails=True
    )


def bundles_repeated(setting: Setting) -> Result:
    """The runner runs each bundle twice and keeps the second."""
    runner = ("--runner=FnApiRunner", "--direct_runner_bundle_repeat=1")
    return _round("each bundle run twice", setting, runner=runner)


def failing_before_commit(setting: Setting) -> Result:
    """A step behind the agents, in their own bundle, fails; the pipeline is run again."""
    return _round("failure before the commit", setting, eager=True, sink_fails=True)


def failing_after_commit(setting: Setting) -> Result:
    """A step behind the agents fails when their bundle is committed already; the pipeline is run again."""
    return _round("failure after the commit", setting, sink_fails=True)


def dead_letters(setting: Setting) -> Result:
    """Agents fail before or after their calls, once; their dead letters are run again."""
    with setting.serving() as server:
        plan = setting.plan(server)
        spec = setting.spec(server, agent_fails=True, by_event=True)
        runs = run_until_done(lambda: forked(run, spec), plan)
        letters = read_outputs(setting.directory).errors
        for marker in setting.directory.glob("batch-*.done"):
            marker.unlink()
        again = replace(spec, events=tuple(letter.event for letter in letters))
        runs += run_until_done(lambda: forked(run, again), replace(plan, kills=0))
        result = examine("dead letters run again", spec, server, plan, runs, dead_letters=None)
        return replace(result, note=f"{len(letters)} dead letters") if letters else _nothing_fired(result)


def failing_syncs(setting: Setting) -> Result:
    """The disk fails to sync, at synchronous=FULL."""
    return _under_faults("syncs fail", setting, "posix/io/sync/fdatasync", "probability=.3")


def full_disk(setting: Setting) -> Result:
    """The disk is full, on and off."""
    return _under_faults("disk full", setting, "posix/io/rw/pwrite", "probability=.03,failinfo=28")


def locked_journal(setting: Setting) -> Result:
    """Another process holds the journal locked for two seconds, again and again."""
    journal = f"sqlite:///{journal_path(setting.directory)}?busy_ms=100"
    with _again_and_again(lambda over: _hold(journal_path(setting.directory), over)):
        result = _round("journal locked", setting, durable_s=4, journal=journal)
    return result if _fired(setting) else _nothing_fired(result)


def redis_restarted(setting: Setting) -> Result:
    """The server of a Redis journal is killed and started again, again and again; workers are killed as well."""
    redis = RedisServer(setting.directory)
    redis.start()
    try:
        return _restarted("redis restarted", setting, redis, lambda: redis_attempts(redis.client))
    finally:
        redis.stop()


def postgresql_restarted(setting: Setting) -> Result:
    """The server of a PostgreSQL journal crashes and recovers, again and again; workers are killed as well."""
    postgresql = PostgresqlServer()
    postgresql.start()
    try:
        return _restarted("postgresql restarted", setting, postgresql, lambda: postgresql_attempts(postgresql.run))
    finally:
        postgresql.remove()


def clock_set_back(setting: Setting) -> Result:
    """The clock jumps back by an hour a second after each start."""
    return _round("clock set back", setting, clock_back_ms=3_600_000)


def paused(setting: Setting) -> Result:
    """A worker is stopped, taken for dead, replaced; then it wakes and finishes what it had in flight."""
    with setting.serving() as server:
        plan = replace(setting.plan(server), kills=0)
        spec = setting.spec(server, journal=f"sqlite:///{journal_path(setting.directory)}?lease_s=1", batches=1)
        first = forked(run, spec)
        plan.wait_for_requests(first, 60)
        assert first.pid is not None
        os.kill(first.pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        try:
            runs = 1 + run_until_done(lambda: forked(run, replace(spec, eager=False)), plan)
        finally:
            os.kill(first.pid, signal.SIGCONT)
        first.join(120)
        plan.done_at.append(stopped_at)
        return examine("worker paused, then back", spec, server, plan, runs, lives=2)


def _restarted(
    row: str, setting: Setting, journal: RedisServer | PostgresqlServer, kept: Callable[[], list[Attempt]]
) -> Result:
    with setting.serving() as server:
        plan = setting.plan(server)
        spec = setting.spec(server, journal=f"{journal.uri}?lease_s=1")
        with _again_and_again(lambda over: _restart(journal, over), 1.5):
            runs = run_until_done(lambda: forked(run, spec), plan, failures=40)
        result = examine(row, spec, server, plan, runs, kept=kept(), durable_s=4)
    return result if _fired(setting) else _nothing_fired(result)


def _round(row: str, setting: Setting, *, failures: int = 0, durable_s: float = 1, **changes: Any) -> Result:
    with setting.serving() as server:
        plan = setting.plan(server)
        spec = setting.spec(server, **changes)
        runs = run_until_done(lambda: forked(run, spec), plan, failures=failures)
        return examine(row, spec, server, plan, runs, durable_s=durable_s)


def _under_faults(row: str, setting: Setting, point: str, terms: str) -> Result:
    with setting.serving() as server:
        plan = setting.plan(server)
        spec = setting.spec(server, journal=f"sqlite:///{journal_path(setting.directory)}?synchronous=FULL")
        open_journal(spec.journal)
        told = spec.save(setting.directory / "spec.json")
        command = ["fiu-run", "-x", "-f", "", "-c", f"enable_random name={point},{terms}", sys.executable]
        command += ["-c", _WITHOUT_ARROW, str(told)]
        runs = run_until_done(lambda: _started(command, setting), plan, failures=20)
        result = examine(row, spec, server, plan, runs, durable_s=4)
        return result if _fired(setting) else _nothing_fired(result)


def _started(command: Sequence[str], setting: Setting) -> Running:
    return program(command, setting.directory / "worker.out")


def _fired(setting: Setting) -> int:
    """How often a worker saw its journal fail."""
    return sum("journal_failing" in line for line in logged(setting.directory))


def _nothing_fired(result: Result) -> Result:
    return replace(result, problems=(*result.problems, "the fault never happened: this proves nothing"))


def _hold(path: Path, over: threading.Event) -> None:
    if path.exists():
        with (
            contextlib.suppress(sqlite3.OperationalError),
            contextlib.closing(sqlite3.connect(path, isolation_level=None)) as held,
        ):
            held.execute("BEGIN IMMEDIATE")
            over.wait(2)
            held.execute("ROLLBACK")


def _restart(journal: RedisServer | PostgresqlServer, over: threading.Event) -> None:
    journal.stop()
    over.wait(0.4)
    journal.start()


@contextlib.contextmanager
def _again_and_again(strike: Callable[[threading.Event], None], every_s: float = 0.7) -> Iterator[None]:
    over = threading.Event()

    def strikes() -> None:
        while not over.wait(every_s):
            strike(over)

    thread = threading.Thread(target=strikes)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


SCENARIOS: dict[str, Scenario] = {
    "killed": killed,
    "bundles_retried": bundles_retried,
    "bundles_repeated": bundles_repeated,
    "failing_before_commit": failing_before_commit,
    "failing_after_commit": failing_after_commit,
    "dead_letters": dead_letters,
    "paused": paused,
    "locked_journal": locked_journal,
    "failing_syncs": failing_syncs,
    "full_disk": full_disk,
    "redis_restarted": redis_restarted,
    "postgresql_restarted": postgresql_restarted,
    "clock_set_back": clock_set_back,
}
"""Each row's name and how one round of it is run."""
