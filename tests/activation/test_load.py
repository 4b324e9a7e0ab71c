"""Limits on what is sent to an endpoint."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_agents.activation.gate import CircuitGate
from beam_agents.activation.load import EndpointLoad, LoadLimits
from beam_agents.activation.pacing import AdaptiveLimit, Pause, RateBucket, RetryBudget
from beam_agents.errors import ConnectionBroken, ProviderTimeout, RateLimitError, ServerError
from beam_agents.model import CircuitBreaker, RetryPolicy
from beam_agents.testing import FakeLLM, ManualClock, RecordingSleep, fail_then_succeed, match_any, respond_with
from beam_agents.values import TokenUsage
from tests.activation.conftest import body


def _load(clock: ManualClock, sleep: RecordingSleep, **limits: Any) -> EndpointLoad:
    return EndpointLoad(LoadLimits(**({"concurrency": 100} | limits)), clock, sleep)


async def _send(load: EndpointLoad, tokens: int = 0) -> None:
    async with load.slot() as slot:
        slot.answered(TokenUsage(tokens, 0, tokens))


async def test_requests_are_paced_to_their_rate(clock: ManualClock, sleep: RecordingSleep) -> None:
    load, start = _load(clock, sleep, requests_per_minute=600), clock()
    for _ in range(50):
        await _send(load)
    assert 3_900 <= clock() - start <= 4_200


async def test_tokens_are_paced_by_what_answers_really_took(clock: ManualClock, sleep: RecordingSleep) -> None:
    load, start = _load(clock, sleep, tokens_per_minute=60_000), clock()
    for _ in range(20):
        await _send(load, tokens=500)
    assert 8_000 <= clock() - start <= 10_000


async def test_no_more_requests_than_the_limit_are_in_flight(clock: ManualClock, sleep: RecordingSleep) -> None:
    load, peak = _load(clock, sleep, concurrency=3), 0

    async def hold() -> None:
        nonlocal peak
        async with load.slot():
            peak = max(peak, load.in_use)
            await asyncio.sleep(0)

    await asyncio.gather(*(hold() for _ in range(30)))
    assert (peak, load.in_use) == (3, 0)


async def test_those_who_wait_are_served_in_their_order(clock: ManualClock, sleep: RecordingSleep) -> None:
    load, order = _load(clock, sleep, concurrency=1), []

    async def hold(n: int) -> None:
        async with load.slot():
            order.append(n)
            await asyncio.sleep(0)

    await asyncio.gather(*(hold(n) for n in range(10)))
    assert order == list(range(10))


async def test_a_cancelled_wait_frees_its_place(clock: ManualClock, sleep: RecordingSleep) -> None:
    load = _load(clock, sleep, concurrency=1)
    async with load.slot():
        waiting = [asyncio.ensure_future(_send(load)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
    await asyncio.gather(*waiting[1:])
    assert load.in_use == 0


async def test_the_time_that_requests_were_held_back_is_counted_once(clock: ManualClock, sleep: RecordingSleep) -> None:
    load = _load(clock, sleep, requests_per_minute=60)
    await asyncio.gather(*(_send(load) for _ in range(4)))
    assert 2_900 <= load.take_throttled_ms() <= 3_200
    assert load.take_throttled_ms() == 0


@pytest.mark.parametrize("error", [RateLimitError(), ProviderTimeout(), ServerError(529), ServerError(503)])
def test_signs_of_overload_take_thirty_percent_away(clock: ManualClock, sleep: RecordingSleep, error: Any) -> None:
    load = _load(clock, sleep)
    load.congested(error)
    load.congested(error)
    assert load.adaptive.limit == 70
    clock.advance(1_000)
    load.congested(error)
    assert load.adaptive.limit == 49


@pytest.mark.parametrize("error", [ServerError(500), ConnectionBroken(), ValueError()])
def test_other_failures_leave_the_limit_alone(clock: ManualClock, sleep: RecordingSleep, error: Any) -> None:
    load = _load(clock, sleep)
    load.congested(error)
    assert load.adaptive.limit == 100


def test_the_limit_grows_by_one_a_round_and_not_above_the_cap() -> None:
    limit = AdaptiveLimit(10)
    limit.failed(0)
    assert limit.limit == 7
    for _ in range(8):
        limit.served(1, 100, 7)
    assert limit.limit == 8
    for _ in range(200):
        limit.served(1, 100, 10)
    assert limit.limit == 10


def test_an_idle_endpoint_earns_nothing() -> None:
    limit = AdaptiveLimit(10)
    limit.failed(0)
    for _ in range(100):
        limit.served(1, 100, 1)
    assert limit.limit == 7


def test_a_few_long_answers_do_not_count_as_slower_and_a_slow_endpoint_does() -> None:
    limit = AdaptiveLimit(100)
    for n in range(2_000):
        limit.served(n * 5, 5_000 if n % 50 == 0 else 200, 100)
    assert limit.limit == 100
    for n in range(100):
        limit.served(10_000 + n * 100, 2_000, 100)
    assert limit.limit < 70


def test_after_a_restart_the_limit_doubles_each_round_up_to_half_and_then_grows_by_one() -> None:
    limit, rounds = AdaptiveLimit(64), []
    limit.restart()
    limit.restart()
    for _ in range(8):
        rounds.append(limit.limit)
        for _ in range(limit.limit):
            limit.served(0, 100, limit.limit)
    assert rounds[:6] == [1, 2, 4, 8, 16, 32]
    assert 32 <= rounds[7] <= 35


async def test_an_endpoint_whose_circuit_was_open_begins_with_one(clock: ManualClock, sleep: RecordingSleep) -> None:
    breaker = CircuitBreaker(endpoint="e", threshold=1, cooldown_ms=1_000)
    load = EndpointLoad(LoadLimits(100), clock, sleep, breaker)
    stragglers = [load.slot() for _ in range(5)]
    for straggler in stragglers:
        await straggler.__aenter__()
    breaker.record_failure(clock())
    async with load.slot():  # a trial does not wait for them
        assert load.in_use == 6
    assert load.adaptive.limit == 1
    for straggler in stragglers:
        await straggler.__aexit__(None, None, None)
    assert load.in_use == 0


def test_refusals_double_the_pause_and_a_success_ends_that(clock: ManualClock) -> None:
    pause, lengths = Pause(clock, Random(1)), []
    for _ in range(8):
        pause.begin(None)
        lengths.append(pause.wait_ms())
        clock.advance(lengths[-1] + 1)
    assert all(100 * 2**n <= length <= 200 * 2**n for n, length in enumerate(lengths[:6]))
    assert lengths[7] <= 10_000
    pause.served()
    pause.begin(None)
    assert pause.wait_ms() <= 200


def test_refusals_within_a_pause_do_not_double_it(clock: ManualClock) -> None:
    pause = Pause(clock, Random(1))
    for _ in range(50):
        pause.begin(None)
    assert pause.wait_ms() <= 200


@pytest.mark.parametrize(("asked_ms", "waited_ms"), [(1_500, 1_500), (3_600_000, 60_000)])
def test_a_pause_is_as_long_as_the_endpoint_asks_up_to_a_minute(
    clock: ManualClock, asked_ms: float, waited_ms: float
) -> None:
    pause = Pause(clock, Random(1))
    pause.begin(asked_ms)
    assert pause.wait_ms() == waited_ms


async def test_a_refusal_rests_the_endpoint_for_everyone(clock: ManualClock, sleep: RecordingSleep) -> None:
    load, start = _load(clock, sleep), clock()
    async with load.slot() as slot:
        slot.failed(RateLimitError(2_000))
    await _send(load)
    assert clock() - start >= 2_000


@pytest.mark.parametrize("left_ms", range(8))
async def test_a_pause_that_ends_between_two_readings_of_the_clock_holds_nobody(
    clock: ManualClock, sleep: RecordingSleep, left_ms: int
) -> None:
    def ticking() -> int:
        clock.advance(1)
        return clock()

    load = EndpointLoad(LoadLimits(concurrency=4), ticking, sleep)
    load.congested(RateLimitError(300))
    clock.advance(300 - left_ms)
    sending = asyncio.ensure_future(_send(load))
    for _ in range(20):
        await asyncio.sleep(0)
    assert sending.done()
    await sending


async def test_trials_are_spread_over_a_quarter_of_the_cooldown(clock: ManualClock, sleep: RecordingSleep) -> None:
    waits = []
    for seed in range(20):
        breaker = CircuitBreaker(endpoint=str(seed), threshold=1, cooldown_ms=1_000)
        breaker.record_failure(clock())
        start = clock()
        async with CircuitGate(breaker, clock, sleep, Random(seed)).passage(start + 60_000):
            waits.append(clock() - start)
    assert min(waits) >= 1_000
    assert max(waits) <= 1_310
    assert len(set(waits)) > 10


async def test_a_circuit_without_a_cooldown_is_not_tried_in_a_hot_loop(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), fail_then_succeed(error=ServerError(503), times=1_000, payload=body()))

    async def agent(ctx: Any, event: Any) -> None:
        await asyncio.gather(ctx.complete("fails"), return_exceptions=True)
        await ctx.complete("opens the circuit")

    policy = RetryPolicy(1, 0, 0)
    await run(agent, retry_policy=policy, breaker_threshold=2, breaker_cooldown_ms=0, activation_timeout_s=10)
    assert 40 <= llm.call_count <= 60


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5_000), st.floats(0, 1e6)), max_size=80))
def test_the_limit_stays_between_one_and_its_cap(events: list[tuple[bool, int, float]]) -> None:
    limit, now_ms = AdaptiveLimit(20), 0
    for failed, later_ms, took_ms in events:
        now_ms += later_ms
        if failed:
            limit.failed(now_ms)
        else:
            limit.served(now_ms, took_ms, limit.limit)
        assert 1 <= limit.limit <= 20


def test_retries_are_at_most_their_share_of_calls_and_a_reserve(clock: ManualClock) -> None:
    budget, retries = RetryBudget(0.2, clock), 0
    for _ in range(1_000):
        budget.earn()
        while budget.take():
            retries += 1
            budget.earn()
    assert 200 <= retries <= 212


def test_the_reserve_comes_back_by_time(clock: ManualClock) -> None:
    budget = RetryBudget(0.1, clock)
    assert [budget.take() for _ in range(12)].count(True) == 10
    clock.advance(30_000)
    assert [budget.take() for _ in range(12)].count(True) == 3


def test_a_bucket_may_be_overdrawn_and_is_paid_back_by_time(clock: ManualClock) -> None:
    bucket = RateBucket(0.01, clock)
    bucket.take(30)
    assert bucket.wait_ms() == pytest.approx(2_100)
    clock.advance(2_101)
    assert bucket.wait_ms() == 0


async def test_a_call_beyond_the_retry_budget_fails_with_its_last_error(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), fail_then_succeed(error=ServerError(500), times=10**6, payload=body()))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")

    policy = RetryPolicy(100, 0, 0)
    outcome = await run(agent, retry_policy=policy, breaker_threshold=1_000, retry_budget=0.1, on_open="dead_letter")
    assert outcome.dead_letter.error_type == "ServerError"
    assert 11 <= outcome.dead_letter.attempts <= 13


async def test_the_wait_for_a_place_is_on_the_trace(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body()))

    async def agent(ctx: Any, event: Any) -> None:
        for n in range(3):
            await ctx.complete(str(n))

    outcome = await run(agent, requests_per_minute=60)
    waits = [int(event.attributes.get("beam_agents.waited_ms", 0)) for event in outcome.trace_events[1:]]
    assert waits[0] == 0
    assert all(900 <= wait <= 1_100 for wait in waits[1:])


async def test_an_answer_that_is_replayed_needs_no_place(run: Any, llm: FakeLLM, sleep: RecordingSleep) -> None:
    llm.add_rule(match_any(), respond_with(body()))

    async def agent(ctx: Any, event: Any) -> None:
        for _ in range(50):
            await ctx.complete("same")

    await run(agent, requests_per_minute=1)
    assert sleep.delays == []


def test_a_clock_set_back_makes_no_pause_longer() -> None:
    clock = ManualClock(10_000_000)
    pause = Pause(clock, Random(1))
    pause.begin(2_000)
    clock.advance(-3_600_000)
    assert pause.wait_ms() == 2_000
    clock.advance(2_000)
    assert pause.wait_ms() == 0
    pause.begin(None)
    assert 0 < pause.wait_ms() <= 1_000


async def test_what_is_not_sent_uses_up_nothing(clock: ManualClock, sleep: RecordingSleep) -> None:
    load = _load(clock, sleep, requests_per_minute=60, tokens_per_minute=6_000, retry_budget=0.5)
    await _send(load, tokens=60)
    clock.advance(10_000)
    start = clock()
    for _ in range(1_000):
        async with load.slot():
            pass
    await _send(load, tokens=60)
    assert clock() == start
    assert [load.may_retry() for _ in range(12)].count(True) == 10


async def test_refusals_of_an_open_circuit_leave_the_rates_alone(
    run: Any, llm: FakeLLM, clock: ManualClock, sleep: RecordingSleep
) -> None:
    llm.add_rule(match_any(), fail_then_succeed(error=ServerError(500), times=1, payload=body()))

    async def agent(ctx: Any, event: Any) -> None:
        for n in range(200):
            await asyncio.gather(ctx.complete(str(n % 2)), return_exceptions=True)
        clock.advance(10_000)
        await ctx.complete("0")
        await ctx.complete("1")

    limits = {"requests_per_minute": 60, "breaker_threshold": 2, "breaker_cooldown_ms": 10_000}
    outcome = await run(agent, retry_policy=RetryPolicy(1, 0, 0), on_open="dead_letter", **limits)
    assert (outcome.committed, llm.call_count) == (True, 4)
    assert sum(sleep.delays) <= 2_200


async def test_a_request_whose_answer_cannot_be_read_was_sent(run: Any, llm: FakeLLM, sleep: RecordingSleep) -> None:
    llm.add_rule(match_any(), respond_with(b"odd"))

    async def agent(ctx: Any, event: Any) -> None:
        for n in range(3):
            await asyncio.gather(ctx.complete(str(n)), return_exceptions=True)

    await run(agent, requests_per_minute=60)
    assert 1_900 <= sum(sleep.delays) <= 2_200


async def test_only_answers_with_their_tokens_shape_the_estimate(clock: ManualClock, sleep: RecordingSleep) -> None:
    load = _load(clock, sleep, tokens_per_minute=60_000)
    await _send(load, tokens=900)
    for _ in range(20):
        async with load.slot() as slot:
            slot.failed(ServerError(500))
    assert await load.enter() == 900
