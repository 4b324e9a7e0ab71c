"""The same workload, endpoint and kills without beam-agents, and with it but without a journal.

`repeats` are the answers that were charged for beyond one for each question, for whatever reason. `drift` are the
tokens of charged requests that the account says nothing of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.chaos.audit import Attempt, Kills, audit, journal_attempts
from tests.chaos.books import Entry, Outputs, read_ledger, read_outputs
from tests.chaos.processes import endpoint, forked, run_until_done
from tests.chaos.rivals import run_inference, run_tenacity
from tests.chaos.rounds import Result, journal_path
from tests.chaos.scenarios import Scenario, Setting
from tests.chaos.worker import Spec, run

__all__ = ["COMPARISON"]

_FAULTS = 0.05

_Account: TypeAlias = Callable[[Path, Sequence[Entry]], tuple[int, int]]
"""From what was put out and the ledger to the requests in doubt and the drift."""


def _compared(row: str, work: Callable[[Spec], None], account: _Account, *, note: str = "") -> Scenario:
    def scenario(setting: Setting) -> Result:
        with endpoint(setting.directory, setting.seed, faults=_FAULTS) as server:
            plan = setting.plan(server)
            spec = setting.spec(server, batches=1, **({} if account is _by_journal else {"journal": None}))
            runs = run_until_done(lambda: forked(work, spec), plan, failures=20)
            server.settle()
            ledger = read_ledger(server.ledger)
            charged = [entry for entry in ledger if entry.charged]
            questions = {entry.subject for entry in charged}
            in_doubt, drift = account(setting.directory, ledger)
            return Result(
                row=row,
                runs=runs,
                kills=len(plan.done_at),
                events=len(spec.events),
                calls=len(questions),
                requests=len(ledger),
                answered=len(charged),
                in_doubt=in_doubt,
                repeats=len(charged) - len(questions),
                outside=0,
                paid_twice=0,
                drift=drift,
                note=note,
            )

    return scenario


def _by_journal(directory: Path, ledger: Sequence[Entry]) -> tuple[int, int]:
    return _audited(ledger, read_outputs(directory), journal_attempts(journal_path(directory)))


def _by_traces(directory: Path, ledger: Sequence[Entry]) -> tuple[int, int]:
    return _audited(ledger, read_outputs(directory), [])


def _audited(ledger: Sequence[Entry], outputs: Outputs, kept: Sequence[Attempt]) -> tuple[int, int]:
    found = audit(ledger, outputs, kept, Kills(()))
    return found.classes["in_doubt"], found.drift


def _by_outputs(directory: Path, ledger: Sequence[Entry]) -> tuple[int, int]:
    """Nothing tells of a request but the answers that got through."""
    told = sum(
        json.loads(line)["tokens"] for path in directory.glob("rival-*.jsonl") for line in path.read_text().splitlines()
    )
    return 0, sum(entry.input_tokens + entry.output_tokens for entry in ledger) - told


COMPARISON: dict[str, Scenario] = {
    "with_journal": _compared("RunAgent, sqlite journal", run, _by_journal),
    "without_journal": _compared("RunAgent, no journal", run, _by_traces),
    "run_inference": _compared(
        "Beam RunInference", run_inference, _by_outputs, note="its waits shortened a hundredfold"
    ),
    "tenacity": _compared("tenacity in a Map", run_tenacity, _by_outputs),
}
"""Each row's name and how one round of it is run."""
