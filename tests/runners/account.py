"""What a round came to: its outputs, and its account against the endpoint's own count."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.chaos.audit import Attempt, account_of
from tests.chaos.books import Entry, read_ledger, read_outputs
from tests.runners.shape import Shape

__all__ = ["ANSWERED", "Account", "settle"]

ANSWERED = ("billed", "recovered", "discarded")
"""Classes of requests whose answer was read."""

_BEFORE_S = 0.5
_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Account:
    """One row of the table.

    Attributes:
        outputs, dead_letters: what the last run committed.
        exact: every event came out exactly once, as output or dead letter, and as the one that it must be.
        seq_gapless: positions of each key and window are 0, 1, 2, … and its state counted every answer.
        wrong_places: results whose time or window is not their event's.
        requests: requests that the endpoint saw.
        classes: attempts by class of spend.
        replayed: answers in the last run's outputs that came from the journal.
        repeats: answers that no attempt of the account holds.
        unexplained: those of them that were not in flight when a worker was killed; 0 where none was.
        drift: requests without an attempt, attempts without a request that are not in doubt, and tokens between
            an answer and its attempt.
        open_bundles: bundles that one process had open at once, at most.
        dropped: outputs that a window without lateness behind the agent did not get; 0 where there is none.
    """

    outputs: int
    dead_letters: int
    exact: bool
    seq_gapless: bool
    wrong_places: int
    requests: int
    classes: Mapping[str, int]
    replayed: int
    repeats: int
    unexplained: int
    drift: int
    open_bundles: int
    dropped: int


def settle(
    shape: Shape, ledger: Path, kept: Iterable[Attempt], folders: Sequence[Path], kills: Sequence[float]
) -> Account:
    """The account of all runs of a round, and the outputs of the last."""
    shape = replace(shape, **_lines(folders[-1], "start")[0]) if shape.paced else shape
    entries = read_ledger(ledger)
    told: dict[str, Attempt] = {}
    every = read_outputs(folders[-1])
    main, errors = list(every.main), _errors(folders[-1])
    for folder in folders[:-1]:
        earlier = read_outputs(folder)
        every.traces += earlier.traces
        every.errors += earlier.errors
    told = account_of(every, kept)
    repeats, drift = _match(entries, told.values())
    return Account(
        outputs=len(main),
        dead_letters=len(errors),
        exact=_exact(shape, main, errors),
        seq_gapless=_gapless(main, errors),
        wrong_places=sum(not _placed(shape, one) for one in (*main, *errors)),
        requests=len(entries),
        classes=dict(Counter(attempt.spend for attempt in told.values())),
        replayed=sum(one["replayed"] for one in main),
        repeats=len(repeats),
        unexplained=sum(bool(kills) and not any(_in_flight(one, kill) for kill in kills) for one in repeats),
        drift=drift,
        open_bundles=max((line["open"] for line in _lines(folders[-1], "bundles")), default=0),
        dropped=_dropped(main, folders[-1]) if shape.timed else 0,
    )


def _dropped(main: Sequence[Mapping[str, Any]], folder: Path) -> int:
    grouped = Counter(n for line in _lines(folder, "groups") for n in line["numbers"])
    return sum((Counter(one["n"] for one in main) - grouped).values())


def _lines(folder: Path, name: str) -> list[Any]:
    return [json.loads(line) for file in folder.glob(f"{name}-*.jsonl") for line in file.read_text().splitlines()]


def _errors(folder: Path) -> list[dict[str, Any]]:
    """Dead letters in the form of outputs, without a count."""
    letters = [line for line in _lines(folder, "out") if "error" in line]
    return [
        {"key": str(letter["error"]["entity_key"]), "seq": letter["error"]["seq"], "n": letter["error"]["event"]}
        | {"at": letter["at"], "window": letter["window"]}
        for letter in letters
    ]


def _exact(shape: Shape, main: Sequence[Mapping[str, Any]], errors: Sequence[Mapping[str, Any]]) -> bool:
    refused = Counter(n for n in range(shape.total) if shape.is_refused(n))
    answered = Counter(range(shape.total)) - refused
    return Counter(one["n"] for one in main) == answered and Counter(one["n"] for one in errors) == refused


def _gapless(main: Iterable[Mapping[str, Any]], errors: Iterable[Mapping[str, Any]]) -> bool:
    positions: defaultdict[Any, list[tuple[int, int | None]]] = defaultdict(list)
    for one in (*main, *errors):
        positions[one["key"], one["window"]].append((one["seq"], one.get("count")))
    return all(_is_gapless(sorted(found, key=lambda one: one[0])) for found in positions.values())


def _is_gapless(found: Sequence[tuple[int, int | None]]) -> bool:
    counts = [count for _, count in found if count is not None]
    return [seq for seq, _ in found] == list(range(len(found))) and counts == list(range(1, len(counts) + 1))


def _placed(shape: Shape, one: Mapping[str, Any]) -> bool:
    """Whether a result has its window and, to the millisecond that runners keep, its time."""
    n, millis = one["n"], one["at"] // 1_000
    return (millis, one["window"]) == (shape.placed_at(n) // 1_000, shape.window_of(n))


def _in_flight(entry: Entry, kill: float) -> bool:
    """Whether a kill came between request and durable answer; a request may lie in a dead process's socket."""
    return entry.arrived - _BEFORE_S <= kill <= entry.ended + _AFTER_S


def _match(entries: Iterable[Entry], told: Iterable[Attempt]) -> tuple[list[Entry], int]:
    """Repeats and drift, call by call."""
    calls: defaultdict[str, tuple[list[Entry], list[Attempt]]] = defaultdict(lambda: ([], []))
    for entry in entries:
        calls[entry.call][0].append(entry)
    for attempt in told:
        calls[attempt.call][1].append(attempt)
    found = [_match_call(*both) for both in calls.values()]
    return [entry for repeats, _ in found for entry in repeats], sum(drift for _, drift in found)


def _match_call(entries: list[Entry], attempts: list[Attempt]) -> tuple[list[Entry], int]:
    left, drift = list(entries), 0
    for attempt in (one for one in attempts if one.spend in ANSWERED):
        same = [e for e in left if e.kind == "answered" and (e.input_tokens, e.output_tokens) == attempt.tokens]
        if same:
            left.remove(same[0])
        else:
            drift += sum(attempt.tokens or (1,))
    doubtful = sum(attempt.spend == "in_doubt" for attempt in attempts)
    failed = sum(attempt.spend == "failed" for attempt in attempts)
    refused = sum(entry.status is not None for entry in left)
    drift += max(0, failed - refused)  # a refusal that nobody was left to read is in doubt
    drift += max(0, len(left) - min(failed, refused) - doubtful)
    return [entry for entry in left if entry.kind == "answered"], drift
