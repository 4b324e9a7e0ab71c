"""Retries, waits, deadlines and the breaker, seen through the facade."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from beam_agents.errors import (
    CircuitOpenError,
    OutputSchemaError,
    ProviderError,
    ProviderRequestError,
    ProviderTimeout,
    RateLimitError,
    ResponseDecodeError,
    ServerError,
)
from beam_agents.model import CircuitState, RetryPolicy
from beam_agents.ports import current_call
from beam_agents.values import LlmResponse
from tests.model.conftest import KEY, Bench, answer, ask
from tests.model.parts import GatedLLM, ScriptedLLM, settle
from tests.model.test_spec_scenarios import failing, key_of, serving, trip


class Label(BaseModel):
    label: str


class Highest:
    """Draws the top of every range, so that delays are the pre-jitter ones."""

    def uniform(self, a, b):
        return b


async def call(bench: Bench, **options):
    schema = options.pop("output_schema", None)
    return await bench.facade(**options).complete(ask(), entity_key=KEY, seq=0, output_schema=schema)


# Waits


async def test_the_last_error_itself_is_raised_with_its_own_cause():
    cause = OSError("reset")
    last = ServerError(502)
    last.__cause__ = cause
    bench = Bench(ScriptedLLM(ServerError(500), last), policy=RetryPolicy(2, 0, 0))
    with pytest.raises(ServerError) as caught:
        await call(bench)
    assert caught.value is last
    assert caught.value.__cause__ is cause


async def test_a_thousand_attempts_wait_without_overflow():
    bench = Bench(failing(ServerError(500)), policy=RetryPolicy(1_100, 1, 500), threshold=10_000)
    with pytest.raises(ServerError):
        await call(bench, rng=Highest())
    assert len(bench.sleep.delays) == 1_099
    assert bench.sleep.delays[-1] == 500


async def test_a_wait_that_would_end_after_max_elapsed_is_not_begun():
    policy = RetryPolicy(10, 100, 100, max_elapsed_ms=300)
    bench = Bench(failing(ServerError(500)), policy=policy)
    with pytest.raises(ServerError):
        await call(bench, rng=Highest())
    assert bench.sleep.delays == [100, 100, 100]
    assert bench.llm.call_count == 4


async def test_max_elapsed_counts_the_time_of_the_requests_too():
    class Slow:
        calls = 0

        async def complete(self, request):
            Slow.calls += 1
            bench.clock.advance(150)
            raise ProviderTimeout

    bench = Bench(Slow(), policy=RetryPolicy(10, 100, 100, max_elapsed_ms=400))
    with pytest.raises(ProviderTimeout):
        await call(bench, rng=Highest())
    assert Slow.calls == 2


async def test_a_wait_that_would_end_after_the_deadline_is_not_begun():
    bench = Bench(failing(RateLimitError(5_000)))
    with pytest.raises(RateLimitError):
        await call(bench, deadline_ms=bench.clock() + 4_999)
    assert (bench.sleep.delays, bench.llm.call_count) == ([], 1)
    with pytest.raises(RateLimitError):
        await call(bench, deadline_ms=bench.clock() + 5_000)
    assert bench.sleep.delays == [5_000]
    assert bench.llm.call_count == 3


async def test_what_was_waited_is_traced():
    bench = Bench(ScriptedLLM(RateLimitError(1_500), RateLimitError(2_000), answer()))
    await call(bench)
    assert bench.attributes["beam_agents.waited_ms"] == "3500"
    assert bench.sleep.delays == [1_500, 2_000]


async def test_twenty_callers_with_one_floor_are_spread_out():
    policy = RetryPolicy(2, 0, 0, retry_after_spread_ms=500)
    delays = []
    for seed in range(20):
        bench = Bench(ScriptedLLM(RateLimitError(1_000), answer()), policy=policy, seed=seed)
        await call(bench)
        delays += bench.sleep.delays
    assert len(set(delays)) == 20
    assert all(1_000 <= delay <= 1_500 for delay in delays)


# The breaker


async def test_every_failed_attempt_counts_not_every_failed_call():
    bench = Bench(failing(ServerError(500)), threshold=3, policy=RetryPolicy(3, 0, 0))
    with pytest.raises(ServerError):
        await call(bench)
    assert bench.breaker.state is CircuitState.OPEN


async def test_a_refused_retry_raises_the_last_provider_error_without_a_wait():
    error = ServerError(500)
    bench = Bench(failing(error), threshold=2, policy=RetryPolicy(5, 100, 100))
    with pytest.raises(ServerError) as caught:
        await call(bench)
    assert caught.value is error
    assert bench.llm.call_count == 2
    assert len(bench.sleep.delays) == 1


async def test_a_circuit_that_opens_during_the_wait_raises_the_last_provider_error():
    error = ServerError(500)
    bench = Bench(failing(error), threshold=5)

    async def sleep(ms):
        await trip(bench)

    with pytest.raises(ServerError) as caught:
        await call(bench, sleep=sleep)
    assert caught.value is error
    assert bench.llm.call_count == 1
    assert bench.attributes["error.type"] == "ServerError"


async def test_a_trial_is_one_request_and_is_never_retried():
    bench = Bench(ScriptedLLM(ServerError(500), answer()), threshold=2, cooldown_ms=0)
    await trip(bench)
    with pytest.raises(ServerError):
        await call(bench)
    assert len(bench.llm.requests) == 1
    assert bench.sleep.delays == []


@pytest.mark.parametrize(
    ("outcome", "raised"),
    [
        (ProviderRequestError(400), ProviderRequestError),
        (ProviderError("bare"), ProviderError),
        (KeyError("a bug"), KeyError),
        (b"<html>", ResponseDecodeError),
        (answer('{"label": 5}'), OutputSchemaError),
    ],
    ids=["4xx", "bare provider error", "unlisted", "decode", "schema"],
)
class TestNeutralOutcomes:
    async def test_they_never_trip(self, outcome, raised):
        bench = Bench(ScriptedLLM(outcome), threshold=1)
        for _ in range(10):
            with pytest.raises(raised):
                await call(bench, output_schema=Label)
        assert bench.breaker.state is CircuitState.CLOSED

    async def test_they_leave_the_run_of_failures_as_it_is(self, outcome, raised):
        bench = Bench(
            ScriptedLLM(ServerError(500), outcome, ServerError(500)), threshold=2, policy=RetryPolicy(1, 0, 0)
        )
        for expected in (ServerError, raised, ServerError):
            with pytest.raises(expected):
                await bench.facade().complete(ask(expected.__name__), entity_key=KEY, seq=0, output_schema=Label)
        assert bench.breaker.state is CircuitState.OPEN

    async def test_as_a_trial_they_leave_the_next_caller_the_next_trial(self, outcome, raised):
        bench = Bench(ScriptedLLM(outcome, answer('{"label": "x"}')), threshold=1)
        await trip(bench)
        bench.clock.advance(bench.cooldown_ms)
        with pytest.raises(raised):
            await call(bench, output_schema=Label)
        assert bench.breaker.state is CircuitState.OPEN
        await bench.facade().complete(ask("next"), entity_key=KEY, seq=0, output_schema=Label)
        assert bench.breaker.state is CircuitState.CLOSED


async def test_a_trial_that_is_cancelled_leaves_the_next_caller_the_next_trial():
    bench = Bench(GatedLLM(answer()), threshold=1)
    await trip(bench)
    bench.clock.advance(bench.cooldown_ms)
    task = asyncio.create_task(call(bench))
    await settle()
    assert bench.breaker.state is CircuitState.HALF_OPEN
    with pytest.raises(CircuitOpenError):
        await call(bench)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    bench.llm.gate.set()
    assert (await call(bench)).attempts == 1
    assert bench.breaker.state is CircuitState.CLOSED


async def test_fifty_activations_at_the_end_of_the_cooldown_send_one_request():
    bench = Bench(GatedLLM(answer()), threshold=1)
    await trip(bench)
    bench.clock.advance(bench.cooldown_ms)
    tasks = [asyncio.create_task(bench.facade().complete(ask(), entity_key=f"{n}".encode(), seq=0)) for n in range(50)]
    await settle()
    bench.llm.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert len(bench.llm.requests) == 1
    assert sum(isinstance(result, CircuitOpenError) for result in results) == 49
    states = [event.attributes["beam_agents.circuit_state"] for event in bench.sink.trace_events]
    assert sorted(states) == ["closed", *["half_open"] * 49]


async def test_a_late_success_from_before_the_trip_does_not_close():
    bench = Bench(GatedLLM(answer()), threshold=1)
    late = asyncio.create_task(call(bench))
    await settle()
    await trip(bench)
    bench.llm.gate.set()
    assert (await late).text == "hello"
    assert bench.breaker.state is CircuitState.OPEN


async def test_failures_that_alternate_with_successes_never_trip():
    script = [outcome for _ in range(20) for outcome in (ServerError(500), answer())]
    bench = Bench(ScriptedLLM(*script), threshold=2)
    facade = bench.facade()
    for n in range(20):
        await facade.complete(ask(f"{n}"), entity_key=KEY, seq=0)
    assert bench.breaker.state is CircuitState.CLOSED


# Cancellation


async def test_cancellation_propagates_at_once_and_is_not_retried():
    bench = Bench(GatedLLM(answer()))
    task = asyncio.create_task(call(bench))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(bench.llm.requests) == 1
    assert bench.sleep.delays == []
    assert bench.breaker.state is CircuitState.CLOSED


# What the client is told


async def test_a_client_sees_which_call_it_serves_and_only_while_it_serves_it():
    seen = []

    class Curious:
        async def complete(self, request):
            seen.append(current_call.get())
            if len(seen) == 1:
                raise ServerError(500)
            return LlmResponse(answer())

    bench = Bench(Curious())
    await bench.facade(scope="ns").complete(ask(), entity_key=KEY, seq=3, step_index=2)
    assert current_call.get() is None
    assert seen[0] is seen[1]
    call = seen[0]
    assert (call.call_id, call.entity_key, call.seq, call.step_index) == (key_of(seq=3), KEY, 3, 2)
    assert (call.scope, call.model_id, call.kind) == ("ns", "m-1", "call")


async def test_the_circuit_state_is_read_without_asking_for_a_permit():
    bench = Bench(serving(), threshold=1)
    bench.cache.put(key_of(), answer())
    await trip(bench)
    bench.clock.advance(bench.cooldown_ms)
    await call(bench)
    assert bench.attributes["beam_agents.circuit_state"] == "open"
    assert bench.breaker.state is CircuitState.OPEN
