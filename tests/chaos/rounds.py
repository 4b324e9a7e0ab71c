"""One round: a fresh endpoint, journal and namespace; workers, killed and started again; then the audit."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.audit import Attempt, Audit, Kills, audit, journal_attempts
from tests.chaos.books import Entry, Outputs, read_ledger, read_outputs
from tests.chaos.processes import EndpointProcess, KillPlan
from tests.chaos.worker import Spec
from tests.chaos.workload import Event, step_log, wrong_with

__all__ = ["Result", "examine", "journal_path"]


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table.

    `repeats` are good answers that were paid for and lost, `outside` those of them that no kill explains.
    `drift` is in tokens, plus one for each request without a counterpart.
    """

    row: str
    runs: int
    kills: int
    events: int
    calls: int
    requests: int
    answered: int
    in_doubt: int
    repeats: int
    outside: int
    paid_twice: int
    drift: int
    steps_repeated: int = 0
    longest_flight_s: float = 0.0
    problems: tuple[str, ...] = ()
    note: str = ""

    @classmethod
    def failed(cls, row: str, why: str) -> Result:
        """A round that did not come to an end."""
        return cls(row, *(0 for _ in range(11)), problems=(why,))

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems and not self.outside and not self.drift and not self.paid_twice


def journal_path(directory: Path) -> Path:
    """Where a round's journal file is."""
    return directory / "journal.db"


def examine(
    row: str,
    spec: Spec,
    server: EndpointProcess,
    plan: KillPlan,
    runs: int,
    *,
    dead_letters: int | None = 0,
    lives: int = 1,
    kept: Sequence[Attempt] | None = None,
    durable_s: float = 1.0,
) -> Result:
    """Audit what a round left behind.

    `dead_letters` is how many there must be. `kept` is what the journal says, where that is no file. `lives` is how
    many workers may have lived at once: each may then have paid for an answer and put out its own. `durable_s` is how
    long it may take to make an answer durable.
    """
    server.settle()
    directory = Path(spec.directory)
    ledger, outputs = read_ledger(server.ledger), read_outputs(directory)
    attempts = journal_attempts(journal_path(directory)) if kept is None else kept
    found = audit(ledger, outputs, attempts, Kills((*plan.done_at, *plan.ended_at), durable_s))
    found.problems += _wrong_outputs(spec, outputs, ledger, lives)
    if kept is None:
        found.problems += [*_wrong_journal(directory), *_untold_steps(directory)]
    if dead_letters is not None and len(outputs.errors) != dead_letters:
        found.problems.append(f"{len(outputs.errors)} dead letters instead of {dead_letters}")
    if lives > 1 and found.paid_twice <= 2 * spec.max_in_flight:  # two calls at once in some activations
        found.repeats, found.paid_twice = found.repeats + found.paid_twice, 0
    steps = Counter(line.split(" ")[0] for line in _step_lines(directory))
    return _result(row, spec, plan, runs, found, steps_repeated=sum(steps.values()) - len(steps))


def _result(row: str, spec: Spec, plan: KillPlan, runs: int, found: Audit, *, steps_repeated: int) -> Result:
    return Result(
        row=row,
        runs=runs,
        kills=len(plan.done_at),
        events=len(spec.events),
        calls=found.calls,
        requests=found.requests,
        answered=sum(found.classes[spend] for spend in ("billed", "recovered", "discarded")),
        in_doubt=found.classes["in_doubt"],
        repeats=found.repeats,
        outside=found.repeats_outside_flight,
        paid_twice=found.paid_twice,
        drift=found.drift,
        steps_repeated=steps_repeated,
        longest_flight_s=round(found.longest_flight_s, 3),
        problems=tuple(found.problems),
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What an output must agree with."""

    answers: dict[str, str]
    drawn: set[str]
    at_most: int | None
    versions: int

    def wrong_with(self, got: Sequence[str], event: Event) -> str:
        """What is wrong with the outputs of one event; empty when they are right."""
        if not got:
            return "no output"
        if len(set(got)) > self.versions:
            return f"{len(set(got))} different outputs"
        if self.at_most is not None and len(got) > self.at_most:
            return f"{len(got)} outputs"
        return next(
            filter(None, (wrong_with(json.loads(one), event, self.answers, self.drawn) for one in set(got))), ""
        )


def _wrong_outputs(spec: Spec, outputs: Outputs, ledger: Sequence[Entry], lives: int) -> list[str]:
    by_event: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for output in outputs.main:
        by_event[output["key"], output["index"]].append(json.dumps(output, sort_keys=True))
    answers = {f"answer {entry.serial}": entry.prompt for entry in ledger if entry.kind == "answered"}
    drawn = {line.split(" ")[1] for line in _step_lines(Path(spec.directory))}
    facts = _Facts(answers, drawn, None if spec.eager else lives, lives)
    wrong = [
        f"{event['key']}/{event['index']}: {why}"
        for event in spec.events
        if (why := facts.wrong_with(by_event.pop((event["key"], event["index"]), []), event))
    ]
    return wrong + [f"{name}: an output of no event" for name in by_event]


def _step_lines(directory: Path) -> list[str]:
    path = step_log(directory)
    return path.read_text().splitlines() if path.exists() else []


def _wrong_journal(directory: Path) -> list[str]:
    with closing(sqlite3.connect(journal_path(directory))) as connection:
        verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
    return [] if verdict == "ok" else [f"the journal is damaged: {verdict}"]


def _untold_steps(directory: Path) -> list[str]:
    """A step that ran more often than the journal tells."""
    with closing(sqlite3.connect(journal_path(directory))) as connection:
        told = connection.execute("SELECT count(*) FROM attempts WHERE kind = 'step'").fetchone()[0]
    ran = len(_step_lines(directory))
    return [] if ran <= told else [f"steps ran {ran} times, the journal tells of {told}"]
