"""The 26 scenarios of the specification, each under its title."""

from __future__ import annotations

import ast
import inspect
import random
from pathlib import Path

import pytest
from pydantic import BaseModel

import beam_agents.model
from beam_agents.errors import (
    CircuitOpenError,
    OutputSchemaError,
    ProviderError,
    ProviderTimeout,
    RateLimitError,
    ServerError,
)
from beam_agents.model import CircuitState, LlmFacade, LlmResponse, RetryPolicy, TokenUsage, compute_cache_key
from beam_agents.proto import TraceEvent
from beam_agents.testing import (
    FakeLLM,
    UnmatchedRequestError,
    fail_then_succeed,
    match_any,
    match_contains,
    raise_error,
    respond_with,
)
from tests.model.conftest import KEY, Bench, answer, ask


class Verdict(BaseModel):
    label: str
    score: int


def serving(payload: bytes = answer()) -> FakeLLM:
    return FakeLLM([(match_any(), respond_with(payload))])


def failing(error: BaseException) -> FakeLLM:
    return FakeLLM([(match_any(), raise_error(error))])


def key_of(request=None, seq: int = 0) -> str:
    request = request or ask()
    return compute_cache_key(
        request.model_id, request.messages, request.tools_schema, request.sampling_params, KEY, seq
    )


async def trip(bench: Bench) -> None:
    for _ in range(bench.threshold):
        bench.breaker.record_failure(bench.clock())
    assert bench.breaker.state is CircuitState.OPEN


# Requirement: Resilient async facade over a provider LLMClient


async def test_facade_returns_a_structured_result_for_a_successful_call():
    bench = Bench(serving(answer("fine", 11, 4)))
    result = await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert result.response == LlmResponse(answer("fine", 11, 4))
    assert (result.cache_hit, result.attempts) == (False, 1)
    assert result.usage == TokenUsage(11, 4, 15)
    assert result.text == "fine"


async def test_facade_never_touches_wall_clock_or_unseeded_randomness():
    forbidden = {"time", "random", "datetime", "secrets", "uuid"}
    for path in Path(beam_agents.model.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.split(".")[0] for name in names}, path
            assert not (isinstance(node, ast.Attribute) and node.attr == "sleep" and _named(node, "asyncio")), path

    async def run() -> tuple[list[float], list[bytes]]:
        bench = Bench(FakeLLM([(match_any(), fail_then_succeed(error=ServerError(503), times=2, payload=answer()))]))
        facade = bench.facade()
        await facade.complete(ask(), entity_key=KEY, seq=0)
        await facade.complete(ask(), entity_key=KEY, seq=0)
        await trip(bench)
        with pytest.raises(CircuitOpenError):
            await facade.complete(ask("other"), entity_key=KEY, seq=0)
        return bench.sleep.delays, [e.SerializeToString(deterministic=True) for e in bench.sink.trace_events]

    state = random.getstate()
    first, again = await run(), await run()
    assert first == again
    expected = random.Random(7)
    assert first[0] == [expected.uniform(0, 100), expected.uniform(0, 200)]
    assert random.getstate() == state


def _named(node: ast.Attribute, name: str) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == name


# Requirement: Replay-cache integration short-circuits provider calls


async def test_a_cache_hit_incurs_no_provider_call():
    bench = Bench(serving())
    bench.cache.put(key_of(), answer("stored"))
    result = await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.call_count == 0
    assert (result.cache_hit, result.attempts) == (True, 0)
    assert result.response.response == answer("stored")


async def test_a_cache_miss_calls_the_provider_and_stages_the_response():
    bench = Bench(serving(answer("new")))
    await bench.facade().complete(ask(), entity_key=KEY, seq=3)
    assert bench.llm.call_count == 1
    stored = bench.cache.get(key_of(seq=3))
    assert stored is not None
    assert stored.response == answer("new")


async def test_a_cache_hit_replays_even_while_the_breaker_is_open():
    bench = Bench(serving())
    bench.cache.put(key_of(), answer("stored"))
    await trip(bench)
    result = await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert result.text == "stored"
    assert bench.llm.call_count == 0
    assert bench.breaker.state is CircuitState.OPEN


async def test_the_output_schema_perturbs_the_cache_key():
    bench = Bench(serving(answer('{"label": "a", "score": 1}')))
    facade = bench.facade()
    await facade.complete(ask(), entity_key=KEY, seq=0)
    structured = await facade.complete(ask(), entity_key=KEY, seq=0, output_schema=Verdict)
    assert not structured.cache_hit
    assert bench.llm.call_count == 2
    ids = [event.attributes["beam_agents.call_id"] for event in bench.sink.trace_events]
    assert ids[0] != ids[1]
    assert ids[0] == key_of()


# Requirement: Typed retry classification with a bounded attempt cap


async def test_a_transient_failure_is_retried_to_success():
    rule = fail_then_succeed(error=ServerError(status=503), times=1, payload=answer("second"))
    bench = Bench(FakeLLM([(match_any(), rule)]), policy=RetryPolicy(2, 100, 1_000))
    result = await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert (result.text, result.attempts) == ("second", 2)


async def test_attempts_are_capped_and_the_last_error_is_re_raised():
    raised = [ProviderTimeout(f"{n}") for n in range(4)]

    class Timeouts:
        calls = 0

        async def complete(self, request):
            self.calls += 1
            raise raised[self.calls - 1]

    bench = Bench(Timeouts(), policy=RetryPolicy(4, 100, 1_000))
    with pytest.raises(ProviderTimeout) as caught:
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.calls == 4
    assert caught.value is raised[-1]


@pytest.mark.parametrize("error", [KeyError("x"), ProviderError("bare"), OutputSchemaError("x", reason="no_text")])
async def test_a_non_retryable_error_is_not_retried(error):
    bench = Bench(failing(error))
    with pytest.raises(type(error)) as caught:
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert caught.value is error
    assert bench.llm.call_count == 1
    unmatched = Bench(FakeLLM([(match_contains("never"), respond_with(b""))]))
    with pytest.raises(UnmatchedRequestError):
        await unmatched.facade().complete(ask(), entity_key=KEY, seq=0)
    assert unmatched.llm.call_count == 1


# Requirement: Jittered exponential backoff honoring Retry-After


async def test_backoff_grows_and_stays_within_the_cap():
    drawn = []

    class Highest:
        def uniform(self, a, b):
            drawn.append((a, b))
            return b

    bench = Bench(failing(ServerError(500)), policy=RetryPolicy(6, 100, 700))
    with pytest.raises(ServerError):
        await bench.facade(rng=Highest()).complete(ask(), entity_key=KEY, seq=0)
    assert drawn == [(0, 100), (0, 200), (0, 400), (0, 700), (0, 700)]
    assert bench.sleep.delays == [100, 200, 400, 700, 700]


async def test_retry_after_is_a_floor_on_the_delay():
    rule = fail_then_succeed(error=RateLimitError(retry_after_ms=1_500), times=1, payload=answer())
    bench = Bench(FakeLLM([(match_any(), rule)]), policy=RetryPolicy(2, 100, 1_000))
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.sleep.delays == [1_500]


async def test_no_sleep_after_the_final_attempt():
    bench = Bench(failing(ServerError(500)), policy=RetryPolicy(3, 100, 1_000))
    with pytest.raises(ServerError):
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.call_count == 3
    assert len(bench.sleep.delays) == 2


# Requirement: Per-endpoint circuit breaker


async def test_consecutive_failures_trip_the_breaker_open():
    bench = Bench(failing(ServerError(500)), threshold=2, policy=RetryPolicy(1, 0, 0))
    facade = bench.facade()
    for _ in range(2):
        with pytest.raises(ServerError):
            await facade.complete(ask(), entity_key=KEY, seq=0)
    assert bench.breaker.state is CircuitState.OPEN
    with pytest.raises(CircuitOpenError) as caught:
        await facade.complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.call_count == 2
    assert caught.value.endpoint == "https://llm.example"
    assert not isinstance(caught.value, ProviderError)


async def test_cooldown_elapses_into_a_half_open_trial():
    bench = Bench(serving(), threshold=2)
    await trip(bench)
    bench.clock.advance(bench.cooldown_ms - 1)
    with pytest.raises(CircuitOpenError):
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    bench.clock.advance(1)
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.call_count == 1
    assert bench.breaker.state is CircuitState.CLOSED


async def test_a_half_open_failure_re_opens_the_breaker():
    bench = Bench(failing(ServerError(500)), threshold=2)
    await trip(bench)
    bench.clock.advance(bench.cooldown_ms)
    with pytest.raises(ServerError):
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.call_count == 1
    assert bench.breaker.state is CircuitState.OPEN
    with pytest.raises(CircuitOpenError):
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.call_count == 1


# Requirement: Token usage accounting


async def test_a_provider_call_accumulates_billed_usage():
    bench = Bench(
        FakeLLM(
            [
                (match_contains("one"), respond_with(answer(prompt=10, completion=1))),
                (match_contains("two"), respond_with(answer(prompt=20, completion=2))),
            ]
        )
    )
    facade = bench.facade()
    await facade.complete(ask("one"), entity_key=KEY, seq=0)
    await facade.complete(ask("two"), entity_key=KEY, seq=0)
    assert bench.sink.billed == TokenUsage(30, 3, 33)


async def test_a_cache_hit_reports_but_does_not_bill_usage():
    bench = Bench(serving())
    bench.cache.put(key_of(), answer(prompt=8, completion=2))
    result = await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert result.usage == TokenUsage(8, 2, 10)
    assert bench.sink.usages == []


# Requirement: Constrained JSON output via output_schema


async def test_valid_structured_output_is_parsed_into_the_model():
    bench = Bench(serving(answer('{"label": "spam", "score": 3}')))
    result = await bench.facade().complete(ask(), entity_key=KEY, seq=0, output_schema=Verdict)
    assert result.parsed == Verdict(label="spam", score=3)
    sent = bench.llm.requests[0].sampling_params["response_format"]
    assert sent["json_schema"]["schema"] == Verdict.model_json_schema()


@pytest.mark.parametrize("text", ["no json", '{"label": "spam"}', '{"label": "spam", "score": "many"}'])
async def test_schema_violating_output_raises_a_typed_error(text):
    bench = Bench(serving(answer(text)))
    with pytest.raises(OutputSchemaError) as caught:
        await bench.facade().complete(ask(), entity_key=KEY, seq=0, output_schema=Verdict)
    assert not isinstance(caught.value, ProviderError)
    assert bench.llm.call_count == 1
    assert bench.sleep.delays == []


async def test_no_schema_means_no_parsing():
    bench = Bench(serving(answer("not json at all")))
    result = await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert result.parsed is None
    assert result.response.response == answer("not json at all")


# Requirement: Per-call trace emission


async def test_a_successful_call_emits_one_llm_call_trace():
    bench = Bench(serving(answer(prompt=10, completion=5)))
    await bench.facade().complete(ask(), entity_key=KEY, seq=4)
    event = bench.sink.trace_events[0]
    assert (event.event_type, event.entity_key, event.seq, event.step_index) == (TraceEvent.LLM_CALL, KEY, 4, 0)
    found = bench.attributes
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.request.model"] == "m-1"
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == ("10", "5")
    assert (found["beam_agents.attempts"], found["beam_agents.cache_hit"]) == ("1", "false")
    assert (found["beam_agents.billed"], found["beam_agents.circuit_state"]) == ("true", "closed")
    assert "error.type" not in found


async def test_a_cache_hit_is_recorded_in_the_trace_attributes():
    bench = Bench(serving())
    bench.cache.put(key_of(), answer())
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    found = bench.attributes
    assert (found["beam_agents.cache_hit"], found["beam_agents.attempts"]) == ("true", "0")
    assert found["beam_agents.billed"] == "false"


async def test_a_cache_hit_reports_the_stored_response_s_real_token_counts():
    bench = Bench(serving())
    bench.cache.put(key_of(), answer(prompt=123, completion=45))
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    found = bench.attributes
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == ("123", "45")


@pytest.mark.parametrize("opened", [False, True])
async def test_unknown_usage_is_omitted_rather_than_reported_as_zero(opened):
    bench = Bench(failing(ServerError(500)))
    if opened:
        await trip(bench)
    with pytest.raises((ServerError, CircuitOpenError)):
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert not [name for name in bench.attributes if name.startswith("gen_ai.usage.")]


async def test_a_failed_call_still_emits_a_trace():
    bench = Bench(failing(ServerError(500)), policy=RetryPolicy(3, 1, 1))
    with pytest.raises(ServerError):
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    found = bench.attributes
    assert (found["error.type"], found["beam_agents.attempts"]) == ("ServerError", "3")
    assert found["beam_agents.billed"] == "false"


async def test_the_facade_stages_uncorrelated_events():
    bench = Bench(serving())
    facade = bench.facade()
    await facade.complete(ask(), entity_key=KEY, seq=0)
    await facade.complete(ask(), entity_key=KEY, seq=0)
    bench.llm.add_rule(match_contains("x"), raise_error(KeyError()))
    await trip(bench)
    with pytest.raises(CircuitOpenError):
        await facade.complete(ask("new"), entity_key=KEY, seq=0)
    assert len(bench.sink.trace_events) == 3
    for event in bench.sink.trace_events:
        assert (event.trace_id, event.span_id, event.parent_span_id) == (b"", b"", b"")
    taken = inspect.signature(LlmFacade.complete).parameters
    assert not [name for name in taken if "trace" in name or "span" in name]
