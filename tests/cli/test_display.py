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
from beam_agents.cli.live import display_for
from beam_agents.cli.panel import Pace, Vitals, panel
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


OPEN = (("https://llm.example:443", "open"), ("https://other.example:443", "closed"))


def test_away_from_a_terminal_there_is_a_plain_line_every_five_seconds() -> None:
    clock, written = ManualClock(start_ms=0), io.StringIO()
    with display_for(Console(file=written, width=80), "a over b", quiet=False, now_ms=clock) as display:
        display.update(RunAccount(4, PRICES), Vitals(4))
        assert written.getvalue() == ""
        clock.advance(5_000)
        display.update(account(), Vitals(2, circuits=OPEN))
        display.update(account(), Vitals(1))
    assert written.getvalue() == (
        "4/4 events · 0.8/s · 2 in flight · p50 0 ms · p95 0 ms · 1 hit · 1 retry · waited 1.5 s in all · 1 dead · "
        "circuit open https://llm.example:443 · 45 tokens · $0.060\n"
    )


def test_on_a_terminal_there_is_a_screen() -> None:
    written = io.StringIO()
    console = Console(file=written, width=100, force_terminal=True)
    with display_for(console, "a over b", quiet=False, now_ms=ManualClock(start_ms=0)) as display:
        display.update(account(), Vitals(2))
    assert "a over b" in written.getvalue()
    assert "in flight" in written.getvalue()


def test_quiet_shows_nothing() -> None:
    clock, written = ManualClock(start_ms=0), io.StringIO()
    with display_for(Console(file=written, force_terminal=True), "a", quiet=True, now_ms=clock) as display:
        clock.advance(60_000)
        display.update(account(), Vitals(2))
    assert written.getvalue() == ""


@pytest.mark.parametrize("width", [60, 100])
def test_the_screen_says_what_an_operator_asks(width: int) -> None:
    pace = Pace()
    pace.note(0, 0)
    pace.note(2_000, 3)
    console = Console(file=io.StringIO(), width=width)
    console.print(panel(account(), Vitals(2, 7, 1, OPEN), pace, title="sort [x] over in.jsonl", took_ms=61_000))
    text = " ".join(console.file.getvalue().replace("│", " ").split())  # type: ignore[attr-defined]
    for part in (
        "sort [x] over in.jsonl",
        "1 min 1 s",
        "1.5 events/s",
        "1 on the wire · 7 waiting",
        "p50 0 ms · p95 0 ms · 1 hit",
        "1 retry · waited 1.5 s in all",
        "30 in · 15 out",
        "$0.060",
        "15 tokens and $0.02",
        "open https://llm.example:443",
        "1 × OutputSchemaError (no_text)",
    ):
        assert part in text


def test_the_pace_is_that_of_the_last_ten_seconds() -> None:
    pace = Pace()
    assert pace.a_second == 0
    for now_ms, done in ((0, 0), (1_000, 500), (20_000, 520), (25_000, 530)):
        pace.note(now_ms, done)
    assert pace.a_second == 2


@pytest.mark.parametrize(("number", "said"), [(0, "0 calls"), (1, "1 call"), (1234, "1,234 calls")])
def test_numbers_agree_with_their_nouns(number: int, said: str) -> None:
    assert counted(number, "call") == said
