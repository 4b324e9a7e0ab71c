"""What a run shows while it goes on and at its end."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest
from rich.console import Console

from beam_agents import attributes as names
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.cli.account import RunAccount
from beam_agents.cli.closing import closing_json, closing_table, cost_text
from beam_agents.cli.live import Vitals, display_for
from beam_agents.cli.wording import counted
from beam_agents.proto import TraceEvent
from beam_agents.report.money import ModelRate, PriceBook
from beam_agents.report.tally import Paid, Tally
from beam_agents.testing import ManualClock
from beam_agents.values import TokenUsage

PRICES = PriceBook({"m": ModelRate(Decimal(1000), Decimal(2000))})


def call(attempt: int, **attributes: str) -> TraceEvent:
    told = {
        names.GEN_AI_REQUEST_MODEL: "m",
        names.BILLED: "true",
        names.ATTEMPTS: "1",
        names.ATTEMPT_ID: f"c{attempt}:1",
        names.GEN_AI_USAGE_INPUT_TOKENS: "10",
        names.GEN_AI_USAGE_OUTPUT_TOKENS: "5",
        **attributes,
    }
    return TraceEvent(event_type=TraceEvent.LLM_CALL, trace_id=b"t%d" % attempt, attributes=told)


def account(prices: PriceBook = PRICES) -> RunAccount:
    gathered = RunAccount(4, prices)
    journal = {names.BILLED: "false", names.ATTEMPTS: "0", names.REPLAY: "journal"}
    retried = {
        names.ATTEMPTS: "2",
        names.WAITED_MS: "1500",
        names.ATTEMPT_LOG: '[{"id":"c2:1","outcome":"in_doubt"},{"id":"c2:2","outcome":"failed"},'
        '{"id":"c2:3","outcome":"answered"}]',
        names.ATTEMPT_ID: "c2:3",
    }
    for event in (call(1), call(2, **retried), call(3, **journal)):
        gathered.add_event(event)
        gathered.add_event(TraceEvent(event_type=TraceEvent.ACTIVATION))
        gathered.add_output()
    letter = DeadLetter(b"k", 0, {}, "OutputSchemaError", "the [odd] answer", "no_text", 1, trace_events=(call(4),))
    gathered.add_dead_letter(letter)
    return gathered


def shown(*parts: object) -> str:
    console = Console(file=io.StringIO(), width=150)
    console.print(*parts)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_numbers_are_those_of_this_run() -> None:
    told = closing_json(account(), took_ms=12.4, date="2026-01-02", namespace="n")
    assert (told["events"], told["committed"], told["outputs"], told["dead_letters"]) == (
        4,
        3,
        3,
        {"OutputSchemaError (no_text)": 1},
    )
    assert (told["calls"], told["hits"], told["requests"], told["retries"], told["waited_ms"]) == (4, 1, 4, 1, 1500)
    assert (told["in_doubt"], told["in_doubt_before"], told["failed_requests"]) == (0, 1, 1)
    assert (told["paid"]["answers"], told["paid"]["money"]) == (3, "0.06")
    assert (told["recovered"]["answers"], told["recovered"]["money"]) == (1, "0.02")


def test_the_table_tells_them_and_escapes_what_came_from_outside() -> None:
    text = shown(closing_table(account(), title="a over b", took_ms=90_000, date="2026-01-02", files=["out.jsonl"]))
    for part in (
        "3 committed · 1 dead letter · 3 outputs",
        "3 asked the model · 1 already answered",
        "1 retry · 1.5 s of waiting",
        "1 of an earlier run in doubt",
        "30 in · 15 out",
        "answer from the journal: 15 tokens and $0.02",
        "the [odd] answer",
        "1 min 30 s",
    ):
        assert part in text


def test_an_unknown_price_is_unknown_not_zero() -> None:
    gathered = account(PriceBook())
    assert cost_text(gathered.paid, "USD") == "unknown"
    assert closing_json(gathered, took_ms=1, date="d", namespace="n")["paid"]["money"] is None
    assert "no price is known for m" in shown(closing_table(gathered, title="t", took_ms=1, date="d", files=[]))


def test_a_price_that_is_known_in_part_is_a_lower_bound() -> None:
    tally = Tally()
    tally.add(Paid(TokenUsage(1, 1, 2), Decimal("0.5")))
    tally.add(Paid(TokenUsage(1, 1, 2)))
    assert cost_text(tally, "USD") == "at least $0.50"
    assert cost_text(Tally(), "USD") == "$0.00"


def test_away_from_a_terminal_there_is_a_plain_line_every_five_seconds() -> None:
    clock, written = ManualClock(start_ms=0), io.StringIO()
    with display_for(Console(file=written, width=150), 4, quiet=False, now_ms=clock) as display:
        display.update(account(), Vitals(2))
        assert written.getvalue() == ""
        clock.advance(5_000)
        display.update(account(), Vitals(2, ("open",)))
        display.update(account(), Vitals(1))
    assert written.getvalue() == (
        "4/4 events · 2 in flight · 1 hit · 1 retry · 1 dead · circuit open · 45 tokens · $0.060\n"
    )


def test_on_a_terminal_there_is_a_bar() -> None:
    written = io.StringIO()
    console = Console(file=written, width=150, force_terminal=True)
    with display_for(console, 4, quiet=False, now_ms=ManualClock(start_ms=0)) as display:
        display.update(account(), Vitals(2))
    assert "4/4" in written.getvalue()
    assert "2 in flight" in written.getvalue()


@pytest.mark.parametrize(("number", "said"), [(0, "0 calls"), (1, "1 call"), (1234, "1,234 calls")])
def test_numbers_agree_with_their_nouns(number: int, said: str) -> None:
    assert counted(number, "call") == said
