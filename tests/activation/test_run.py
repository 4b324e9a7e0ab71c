"""One activation and what it comes to."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest

from beam_agents.activation.staging import Position, Scope
from beam_agents.errors import RateLimitError, ServerError
from beam_agents.model import DecodedResponse, RetryPolicy
from beam_agents.proto import TraceEvent
from beam_agents.testing import FakeLLM, RecordingSleep, fail_then_succeed, match_any, raise_error, respond_with
from tests.activation.conftest import SCOPE, body


async def test_effects_are_committed_together(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body("yes", 7)))

    async def agent(ctx: Any, event: Any) -> Any:
        ctx.emit("first")
        ctx.state = {"seen": event}
        return (await ctx.complete("q")).text

    outcome = await run(agent)
    assert outcome.committed
    assert outcome.outputs == ("first", "yes")
    assert outcome.state == b'{"seen":"event"}'
    assert outcome.usage.total_tokens == 7
    assert [event.event_type for event in outcome.trace_events] == [TraceEvent.ACTIVATION, TraceEvent.LLM_CALL]


async def test_a_failed_activation_stages_nothing_but_its_dead_letter(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body()))

    async def agent(ctx: Any, event: Any) -> None:
        ctx.emit("lost")
        ctx.state = {"lost": True}
        await ctx.complete("q")
        raise KeyError("no")

    outcome = await run(agent, state=b'{"kept":1}')
    assert (outcome.outputs, outcome.trace_events, outcome.usage.total_tokens) == ((), (), 0)
    assert outcome.state == b'{"kept":1}'
    assert outcome.dead_letter.error_type == "KeyError"
    own, call = outcome.dead_letter.trace_events
    assert (own.event_type, call.event_type) == (TraceEvent.ACTIVATION, TraceEvent.LLM_CALL)
    assert dict(own.attributes) == {
        "beam_agents.outcome": "dead_letter",
        "error.type": "KeyError",
        "gen_ai.agent.name": "agent",
    }
    assert (own.trace_id, own.span_id) == (call.trace_id, call.parent_span_id)
    assert [(call.class_, call.usage.total_tokens) for call in outcome.dead_letter.calls] == [("discarded", 5)]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()])
async def test_whatever_an_agent_raises_becomes_a_dead_letter(run: Any, error: BaseException) -> None:
    async def agent(ctx: Any, event: Any) -> None:
        raise error

    outcome = await run(agent)
    assert outcome.dead_letter.error_type == type(error).__name__
    assert outcome.error is error


async def test_the_deadline_is_hard_for_an_agent_that_swallows_its_cancellation(run: Any) -> None:
    heard = []

    async def agent(ctx: Any, event: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
        return "too late"

    outcome = await run(agent, activation_timeout_s=0.02)
    assert heard == ["cancelled"]
    assert outcome.dead_letter.error_type == "ActivationTimeout"
    assert outcome.outputs == ()


async def test_a_call_cut_by_the_deadline_is_in_doubt(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body(), latency_ms=60_000))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")

    outcome = await run(agent, activation_timeout_s=0.02)
    assert [call.class_ for call in outcome.dead_letter.calls] == ["in_doubt"]


async def test_a_context_serves_no_more_once_its_activation_is_over(run: Any) -> None:
    kept: list[Any] = []

    async def agent(ctx: Any, event: Any) -> None:
        kept.append(ctx)

    await run(agent)
    with pytest.raises(RuntimeError, match="is over"):
        kept[0].emit("late")
    with pytest.raises(RuntimeError, match="is over"):
        await kept[0].complete("late")


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({1, 2}, "TypeError"),
        ("x" * 200_000, "StateTooLargeError"),
        (object(), "TypeError"),
        (float("nan"), "TypeError"),
        ({"scores": [1.0, (None, float("inf"))]}, "TypeError"),
    ],
)
async def test_state_that_cannot_be_kept_fails_the_activation(run: Any, state: Any, error: str) -> None:
    async def agent(ctx: Any, event: Any) -> None:
        ctx.state = state

    outcome = await run(agent, state=b"1")
    assert outcome.dead_letter.error_type == error
    assert outcome.state == b"1"


async def test_state_is_the_agents_own_copy_and_may_be_changed_in_place(run: Any) -> None:
    async def agent(ctx: Any, event: Any) -> None:
        ctx.state["n"] += 1

    assert (await run(agent, state=b'{"n":1}')).state == b'{"n":2}'


async def _generator(ctx: Any, event: Any) -> Any:
    return (n for n in range(3))


async def _emits_coroutine(ctx: Any, event: Any) -> None:
    async def value() -> int:
        return 1

    ctx.emit(value())


@pytest.mark.parametrize("agent", [_generator, _emits_coroutine])
async def test_results_that_can_only_be_slips_are_refused(run: Any, agent: Any) -> None:
    assert (await run(agent)).dead_letter.error_type == "TypeError"


async def test_randomness_is_a_function_of_key_and_seq(run: Any) -> None:
    async def agent(ctx: Any, event: Any) -> float:
        return ctx.rng.random()

    same = [(await run(agent)).outputs for _ in range(2)]
    other = [(await run(agent, seq=1)).outputs, (await run(agent, key=b"l")).outputs]
    assert same[0] == same[1]
    assert len({same[0], *other}) == 3


async def test_ids_are_the_uuids_that_the_page_computes(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body()))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")

    outcome = await run(agent, key="grün".encode(), seq=3)
    place = json.dumps([SCOPE.namespace, SCOPE.window, "grün".encode().hex(), 3], separators=(",", ":"))
    trace_id = uuid5(uuid5(NAMESPACE_DNS, "beam-agents"), place)
    own, call = outcome.trace_events
    assert own.trace_id == call.trace_id == trace_id.bytes
    assert own.span_id == uuid5(trace_id, "activation").bytes[:8]
    assert call.span_id == uuid5(trace_id, "call:0").bytes[:8]


async def test_trace_ids_are_functions_of_the_position(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body()))

    async def agent(ctx: Any, event: Any) -> None:
        await asyncio.gather(ctx.complete("a"), ctx.complete("b"))

    first, again = await run(agent), await run(agent)
    spans = [{event.span_id for event in outcome.trace_events} for outcome in (first, again)]
    assert spans[0] == spans[1]
    assert len(spans[0]) == 3
    positions = [Position(Scope("n", "w"), b"k", 0), Position(Scope("nw"), b"k", 0), Position(Scope("n"), b"wk", 0)]
    assert len({position.trace_id for position in positions}) == 3
    assert len(positions[0].trace_id) == 16


async def test_backoff_does_not_disturb_the_agents_randomness(run: Any, llm: FakeLLM, sleep: RecordingSleep) -> None:
    llm.add_rule(match_any(), fail_then_succeed(error=ServerError(500), times=1, payload=body()))

    async def agent(ctx: Any, event: Any) -> float:
        await ctx.complete("q")
        return ctx.rng.random()

    async def calm(ctx: Any, event: Any) -> float:
        return ctx.rng.random()

    assert (await run(agent)).outputs == (await run(calm)).outputs
    assert len(sleep.delays) == 1


async def test_no_wait_ends_after_the_deadline(run: Any, llm: FakeLLM, sleep: RecordingSleep) -> None:
    llm.add_rule(match_any(), raise_error(RateLimitError(3_600_000)))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")

    outcome = await run(agent, activation_timeout_s=5, retry_policy=RetryPolicy(3, 1, 1))
    assert outcome.dead_letter.error_type == "RateLimitError"
    assert sleep.delays == []


async def test_the_token_limit_holds_for_the_whole_activation(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body(tokens=6)))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("a")
        await ctx.complete("b")

    outcome = await run(agent, max_tokens_per_activation=10)
    assert (outcome.dead_letter.error_type, llm.call_count) == ("BudgetExceeded", 2)


async def test_half_a_character_in_an_answer_becomes_a_question_mark(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(b'{"text": "hi \\ud83d"}'))

    async def agent(ctx: Any, event: Any) -> Any:
        return (await ctx.complete("q")).text

    outcome = await run(agent, decode=lambda payload: DecodedResponse(None, json.loads(payload)["text"]))
    assert outcome.outputs == ("hi ?",)
