"""Each request is in exactly one class of spend, whatever the order and however often it is told."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.proto import TraceEvent
from beam_agents.report.account import Account, SpendClass
from beam_agents.report.call_facts import CallFacts
from beam_agents.report.dead_letters import Letter
from beam_agents.report.gather import Gathering
from beam_agents.report.money import ModelRate, PriceBook
from tests.report.events import START_MS, attempt, call, dead_letter

PRICES = PriceBook({"gpt-4o-mini": ModelRate(Decimal(1), Decimal(10))})


def account(*events: TraceEvent) -> Account:
    booked = Account(PRICES)
    for event in events:
        booked.add_call(CallFacts.of(event))
    return booked


def classes(booked: Account) -> dict[str, int]:
    counts = {spend.value: booked.of_class(spend).requests for spend in SpendClass}
    return {name: count for name, count in counts.items() if count}


def test_an_answered_call_is_billed_with_its_tokens_and_money() -> None:
    billed = account(call(tokens=(100, 20))).of_class(SpendClass.BILLED)
    assert (billed.requests, billed.input_tokens, billed.output_tokens) == (1, 100, 20)
    assert billed.money == Decimal("0.0003")


def test_the_requests_before_the_answer_are_failed_or_in_doubt() -> None:
    log = (attempt("call-k-0-0:1", "failed"), attempt("call-k-0-0:2", "in_doubt", "ProviderTimeout", None))
    assert classes(account(call(log=log))) == {"billed": 1, "failed": 1, "in_doubt": 1}


def test_an_answer_from_the_journal_is_recovered_and_saved() -> None:
    booked = account(call(replay="journal", billed=False))
    assert classes(booked) == {"recovered": 1}
    assert booked.saved["journal"].tokens == 120
    assert booked.without_replay == booked.spent.money * 2


def test_an_answer_from_the_activations_own_cache_is_saved_but_no_request() -> None:
    booked = account(call(step=0), call(step=1, replay="cache", billed=False, attempt_id="call-k-0-0:1"))
    assert classes(booked) == {"billed": 1}
    assert booked.saved["cache"].requests == 1


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_billed_beats_recovered_in_every_order(order: tuple[int, ...]) -> None:
    told = [call(), call(replay="journal", billed=False), call(replay="journal", billed=False, start_ms=START_MS + 9)]
    booked = account(*(told[number] for number in order))
    assert classes(booked) == {"billed": 1}
    assert (booked.spent.tokens, booked.saved["journal"].tokens) == (120, 240)


def test_an_attempt_told_by_two_runs_counts_once() -> None:
    log = (attempt("call-k-0-0:1", "in_doubt", "Lost", None),)
    assert classes(account(call(log=log), call(log=log, replay="journal", billed=False))) == {
        "billed": 1,
        "in_doubt": 1,
    }


def test_the_same_event_delivered_twice_counts_once() -> None:
    assert classes(account(call(), call())) == {"billed": 1}


def test_a_second_request_of_a_run_without_a_journal_counts() -> None:
    assert classes(account(call(), call(start_ms=START_MS + 60_000))) == {"billed": 2}


def test_the_same_call_of_another_window_is_another_request() -> None:
    other = call()
    other.trace_id = bytes(16)
    assert classes(account(call(), other)) == {"billed": 2}


def test_the_answers_of_a_dead_letter_are_discarded_and_its_failures_stay_failures() -> None:
    gathering = Gathering(PRICES)
    letter = dead_letter(call(log=(attempt("call-k-0-0:1", "failed"),), error="OutputSchemaError"))
    gathering.add_dead_letter(Letter.from_json(letter))
    assert classes(gathering.account) == {"discarded": 1, "failed": 1}
    assert gathering.account.of_class(SpendClass.DISCARDED).tokens == 120


def test_a_discarded_answer_that_a_later_run_commits_is_recovered() -> None:
    gathering = Gathering(PRICES)
    gathering.add_event(call(replay="journal", billed=False))
    gathering.add_dead_letter(Letter.from_json(dead_letter(call())))
    assert classes(gathering.account) == {"recovered": 1}


def test_an_answer_from_the_journal_that_ends_on_a_dead_letter_is_discarded() -> None:
    gathering = Gathering(PRICES)
    gathering.add_dead_letter(Letter.from_json(dead_letter(call(replay="journal", billed=False))))
    assert classes(gathering.account) == {"discarded": 1}


def test_calls_of_a_dead_letter_without_events_are_booked_by_their_class() -> None:
    gathering = Gathering(PRICES)
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    calls = [{"id": "a:1", "class": "discarded", "usage": usage}, {"id": "a:2", "class": "in_doubt", "usage": None}]
    gathering.add_dead_letter(Letter.from_json(dead_letter(calls=calls)))
    assert classes(gathering.account) == {"discarded": 1, "in_doubt": 1}
    assert gathering.account.spent.tokens == 6


def test_unknown_usage_is_told_and_never_zero() -> None:
    billed = account(call(tokens=None)).of_class(SpendClass.BILLED)
    assert (billed.requests, billed.without_usage, billed.tokens) == (1, 1, 0)


def test_a_model_without_a_price_is_told() -> None:
    billed = account(call(model="house-model")).of_class(SpendClass.BILLED)
    assert (billed.without_price, billed.money, billed.tokens) == (1, 0, 120)


def test_sums_by_model_add_up_to_the_sums_by_class() -> None:
    booked = account(call(), call(seq=1, model="house-model"), call(seq=2, log=(attempt("x:1", "failed"),)))
    assert booked.models == ["gpt-4o-mini", "house-model"]
    by_model = sum(tally.requests for model in booked.models for _, tally in booked.of_model(model))
    assert by_model == sum(classes(booked).values()) == 4


TOLD = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["billed", "journal", "failed", "in_doubt"])), min_size=1, max_size=12
)


def _told(which: int, how: str) -> TraceEvent:
    if how in ("failed", "in_doubt"):
        return call(billed=False, tokens=None, log=(attempt(f"id:{which}", how),), error="ServerError")
    return call(billed=how == "billed", replay="" if how == "billed" else how, attempt_id=f"id:{which}")


@given(TOLD, st.randoms())
def test_order_and_repetition_never_change_the_account(told: list[tuple[int, str]], rng: object) -> None:
    events = [_told(which, how) for which, how in told]
    shuffled = events * 2
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = account(*events), account(*shuffled)
    assert classes(first) == classes(second)
    assert (first.spent.tokens, first.spent.money) == (second.spent.tokens, second.spent.money)
    assert sum(classes(first).values()) == len({which for which, _ in told})
