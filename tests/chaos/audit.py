"""Holds the account against the endpoint's ledger, request by request.

The account is the union by attempt id of traces, dead letters and what the journal keeps for runs that could not
report. It is made here anew, without the package's own reports, which are then held against it as well.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beam_agents import attributes as names
from beam_agents.proto import TraceEvent
from beam_agents.report.account import SpendClass
from beam_agents.report.dead_letters import Letter
from beam_agents.report.gather import Gathering
from tests.chaos.books import Entry, Outputs

__all__ = [
    "Attempt",
    "Audit",
    "Kills",
    "account_of",
    "audit",
    "journal_attempts",
    "postgresql_attempts",
    "redis_attempts",
]

ANSWERED = ("billed", "recovered", "discarded")
_RANK = {"billed": 4, "recovered": 3, "discarded": 2, "in_doubt": 1, "failed": 0}
_EVERY_ATTEMPT = "SELECT call_id, ordinal, state, usage, status, error_type FROM {} WHERE kind = 'call'"
_SOCKET_S = 0.5
"""How long a request may lie in a socket whose client is dead before the endpoint reads it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request, as our side tells it."""

    id: str
    spend: str
    tokens: tuple[int, int] | None = None
    status: int | None = None
    error: str = ""

    @property
    def call(self) -> str:
        """The call that it was made for."""
        return self.id.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class Kills:
    """When workers died. A call is in flight until its answer is durable: `durable_s` at most after it was given."""

    at: tuple[float, ...]
    durable_s: float = 1.0

    def flight_s(self, entry: Entry) -> float | None:
        """How long after the answer was given the worker died; `None` when no kill came while it was in flight."""
        late = [
            kill - entry.ended for kill in self.at if entry.arrived - _SOCKET_S <= kill <= entry.ended + self.durable_s
        ]
        return max(0.0, min(late)) if late else None


@dataclass(slots=True)
class Audit:
    """What came of it. `drift` is the difference of tokens plus everything that has no counterpart."""

    requests: int = 0
    calls: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    repeats: int = 0
    repeats_outside_flight: int = 0
    paid_twice: int = 0
    drift: int = 0
    tokens: int = 0
    longest_flight_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def problem(self, text: str, drift: int = 1) -> None:
        """Note what must not be."""
        self.problems.append(text)
        self.drift += drift


def account_of(outputs: Outputs, kept: Iterable[Attempt]) -> dict[str, Attempt]:
    """The union by attempt id. `kept` is what the journal says; it counts where nothing else tells more."""
    union: dict[str, Attempt] = {}
    for attempt in (*_of_events(outputs.traces, "billed"), *_of_letters(outputs), *kept):
        known = union.get(attempt.id)
        if known is None or _RANK[attempt.spend] > _RANK[known.spend] or (known.tokens is None and attempt.tokens):
            tokens = attempt.tokens or (known.tokens if known else None)
            spend = attempt.spend if known is None or _RANK[attempt.spend] > _RANK[known.spend] else known.spend
            union[attempt.id] = Attempt(attempt.id, spend, tokens, attempt.status, attempt.error)
    return union


def _of_events(events: Iterable[TraceEvent], billed_as: str) -> Iterator[Attempt]:
    for event in events:
        said = event.attributes
        own = said.get(names.ATTEMPT_ID, "")
        if own and (said[names.BILLED] == "true" or said.get(names.REPLAY) == "journal"):
            spend = billed_as if said[names.BILLED] == "true" or billed_as == "discarded" else "recovered"
            yield Attempt(own, spend, _tokens(said))
        for logged in json.loads(said.get(names.ATTEMPT_LOG, "[]")):
            if logged["id"] != own:
                spend = {"answered": "discarded"}.get(logged["outcome"], logged["outcome"])
                tokens = (logged["input_tokens"], logged["output_tokens"]) if "input_tokens" in logged else None
                yield Attempt(logged["id"], spend, tokens, logged.get("status"), logged.get("error", ""))


def _of_letters(outputs: Outputs) -> Iterator[Attempt]:
    for letter in outputs.errors:
        yield from _of_events(letter.trace_events, "discarded")


def _tokens(said: object) -> tuple[int, int] | None:
    found = dict(said)  # type: ignore[call-overload]
    if names.GEN_AI_USAGE_INPUT_TOKENS not in found:
        return None
    return int(found[names.GEN_AI_USAGE_INPUT_TOKENS]), int(found[names.GEN_AI_USAGE_OUTPUT_TOKENS])


def journal_attempts(path: Path) -> list[Attempt]:
    """Every request that a journal file knows, read without the package. An open intent is in doubt."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return [_kept(*row) for row in connection.execute(_EVERY_ATTEMPT.format("attempts")).fetchall()]


def postgresql_attempts(run: Callable[[str], list[tuple[Any, ...]]]) -> list[Attempt]:
    """Every request that a journal on a PostgreSQL server knows, read by plain SQL."""
    return [_kept(*row) for row in run(_EVERY_ATTEMPT.format("beam_agents.attempts"))]


def redis_attempts(client: Any) -> list[Attempt]:
    """Every request that a journal on a Redis server knows, read without the package."""
    found: list[Attempt] = []
    for key in client.scan_iter(match="*:call:*"):
        said = {name.decode(): value for name, value in client.hgetall(key).items()}
        if said["kind"] == b"call":
            for ordinal in (name.partition(":")[0] for name in said if name.endswith(":state")):
                state, usage, status, error = (
                    said.get(f"{ordinal}:{name}", b"").decode() for name in ("state", "usage", "status", "error")
                )
                found.append(
                    _kept(said["call_id"].decode(), int(ordinal), state, usage, int(status or 0) or None, error)
                )
    return found


def _kept(call: str, ordinal: int, state: str, usage: str, status: int | None, error: str) -> Attempt:
    spend = {"answered": "discarded", "intent": "in_doubt"}.get(state, state)
    parts = usage.split(" ")
    tokens = (int(parts[0]), int(parts[1])) if len(parts) == 5 else None
    return Attempt(f"{call}:{ordinal}", spend, tokens, status, error)


def audit(ledger: Sequence[Entry], outputs: Outputs, kept: Sequence[Attempt], kills: Kills) -> Audit:
    """Match every request of the ledger with exactly one attempt of the account."""
    found = Audit(requests=len(ledger))
    account = account_of(outputs, kept)
    found.classes = Counter(attempt.spend for attempt in account.values())
    by_call: defaultdict[str, tuple[list[Entry], list[Attempt]]] = defaultdict(lambda: ([], []))
    for entry in ledger:
        by_call[entry.call][0].append(entry)
    for attempt in account.values():
        by_call[attempt.call][1].append(attempt)
    found.calls = len(by_call)
    for entries, attempts in by_call.values():
        _match(found, entries, attempts, kills)
    _hold_reports_against(found, account, outputs)
    return found


def _match(found: Audit, entries: list[Entry], attempts: list[Attempt], kills: Kills) -> None:
    answered = [attempt for attempt in attempts if attempt.spend in ANSWERED]
    found.paid_twice += max(0, len(answered) - 1)
    left = list(entries)
    for attempt in answered:
        entry = next(
            (e for e in left if e.kind == "answered" and (e.input_tokens, e.output_tokens) == attempt.tokens), None
        )
        if entry is None:
            found.problem(
                f"{attempt.spend} {attempt.id} with {attempt.tokens} tokens: the endpoint knows of no such answer",
                sum(attempt.tokens or (1,)),
            )
            continue
        left.remove(entry)
        found.tokens += entry.input_tokens + entry.output_tokens
    doubtful = [attempt for attempt in attempts if attempt.spend == "in_doubt"]
    failed = [attempt for attempt in attempts if attempt.spend == "failed"]
    for entry in sorted(left, key=lambda e: e.status is None):
        if entry.kind == "answered":
            _note_repeat(found, entry, kills)
        counterpart = next((one for one in failed if entry.status is not None and one.status == entry.status), None)
        if counterpart is not None:
            failed.remove(counterpart)
        elif doubtful:
            doubtful.pop()
        else:
            found.problem(
                f"request {entry.serial} ({entry.kind}) for {entry.subject} was served: no attempt tells of it",
                max(1, entry.input_tokens + entry.output_tokens),
            )
    for attempt in failed:
        if attempt.status is not None:
            found.problem(f"{attempt.id} failed with status {attempt.status}: the endpoint never said that")


def _note_repeat(found: Audit, entry: Entry, kills: Kills) -> None:
    """A good answer that nobody has: its process must have died with the call in flight."""
    found.repeats += 1
    flight_s = kills.flight_s(entry)
    if flight_s is None:
        found.repeats_outside_flight += 1
        found.problem(f"answer {entry.serial} for {entry.subject} was lost, and no kill explains it", 0)
    else:
        found.longest_flight_s = max(found.longest_flight_s, flight_s)


def _hold_reports_against(found: Audit, account: dict[str, Attempt], outputs: Outputs) -> None:
    """The package's own account must say the same of what was reported."""
    gathering = Gathering()
    for event in outputs.traces:
        gathering.add_event(event)
    for letter in outputs.errors:
        gathering.add_dead_letter(Letter.from_json(letter.to_json()))
    reported = account_of(outputs, ())
    for spend in SpendClass:
        ours = [attempt for attempt in reported.values() if attempt.spend == spend.value]
        theirs = gathering.account.of_class(spend)
        tokens = sum(sum(attempt.tokens or (0,)) for attempt in ours)
        if (len(ours), tokens) != (theirs.requests, theirs.tokens):
            found.problem(
                f"the report says {theirs.requests} {spend} of {theirs.tokens} tokens, not {len(ours)} of {tokens}"
            )
