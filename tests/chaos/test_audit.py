"""The audit finds what it is there to find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from beam_agents.proto import TraceEvent
from tests.chaos.audit import Attempt, Audit, Kills, audit
from tests.chaos.books import Entry, Outputs
from tests.report.events import attempt, call


def _entry(serial: int, call_id: str, kind: str = "answered", tokens: tuple[int, int] = (100, 20)) -> Entry:
    status = {"refused": 429, "broken": 503}.get(kind)
    return Entry(serial, call_id, call_id, "", kind, status, *(tokens if status is None else (0, 0)), 10.0, 11.0, False)


def _event(number: int, *log: dict[str, Any], **fields: Any) -> TraceEvent:
    return call(step=number, log=log, **fields)


_ID = "call-k-0-{}".format
_LEDGER = [_entry(1, _ID(0), "broken"), _entry(2, _ID(0)), _entry(3, _ID(1), "cut"), _entry(4, _ID(1))]
_EVENTS = [
    _event(0, attempt(f"{_ID(0)}:1", "failed")),
    _event(1, attempt(f"{_ID(1)}:1", "in_doubt", "ConnectionBroken", None)),
]


def _audit(ledger: list[Entry], events: list[TraceEvent], kept: tuple[Attempt, ...] = (), kills: Any = ()) -> Audit:
    return audit(ledger, Outputs(traces=events), kept, Kills(kills))


def test_books_that_agree() -> None:
    found = _audit(_LEDGER, _EVENTS)
    assert (found.problems, found.drift, found.repeats, found.tokens) == ([], 0, 0, 240)


def test_a_request_that_nobody_tells_of() -> None:
    found = _audit([*_LEDGER, _entry(5, _ID(1), "cut", (7, 3))], _EVENTS)
    assert (found.drift, len(found.problems)) == (10, 1)


def test_tokens_that_differ_by_one() -> None:
    found = _audit([*_LEDGER[:3], replace(_LEDGER[3], output_tokens=21)], _EVENTS)
    assert found.drift > 0
    assert "knows of no such answer" in found.problems[0]


def test_an_answer_that_was_never_given() -> None:
    assert _audit(_LEDGER[:3], _EVENTS).drift == 120


def test_a_failure_that_the_endpoint_never_reported() -> None:
    assert "the endpoint never said that" in _audit(_LEDGER[1:], _EVENTS).problems[0]


def test_an_answer_lost_with_a_kill_is_a_repeat_and_without_one_a_problem() -> None:
    ledger = [_entry(9, _ID(0), tokens=(5, 5)), *_LEDGER]
    lost = (Attempt(f"{_ID(0)}:0", "in_doubt"),)
    killed, alone = _audit(ledger, _EVENTS, lost, (11.2,)), _audit(ledger, _EVENTS, lost, (99.0,))
    assert (killed.problems, killed.repeats, killed.repeats_outside_flight, killed.drift) == ([], 1, 0, 0)
    assert (alone.repeats, alone.repeats_outside_flight, len(alone.problems)) == (1, 1, 1)


def test_an_answer_paid_twice() -> None:
    ledger = [*_LEDGER, _entry(5, _ID(0), tokens=(7, 7))]
    found = _audit(ledger, _EVENTS, (Attempt(f"{_ID(0)}:3", "discarded", (7, 7)),))
    assert (found.paid_twice, found.drift) == (1, 0)


@pytest.mark.parametrize("spend", ["billed", "recovered"])
def test_what_the_journal_keeps_never_outdoes_what_was_reported(spend: str) -> None:
    events = [_event(0, billed=spend == "billed", replay="" if spend == "billed" else "journal")]
    found = _audit([_entry(1, _ID(0))], events, (Attempt(f"{_ID(0)}:1", "discarded", (100, 20)),))
    assert (found.classes, found.problems) == ({spend: 1}, [])
