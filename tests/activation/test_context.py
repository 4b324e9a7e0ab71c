"""What agents can do with `ctx`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from beam_agents.errors import ServerError
from beam_agents.model import CircuitState, LlmRequest, RetryPolicy, circuit_breaker_for
from beam_agents.testing import FakeLLM, RecordingSleep, fail_then_succeed, match_any, match_contains, respond_with
from beam_agents.testing import raise_error as failing
from tests.activation.conftest import body


class Verdict(BaseModel):
    good: bool


@pytest.mark.parametrize(
    "messages",
    [
        "hi",
        [{"role": "user", "content": "hi"}],
        ({"role": "user", "content": "hi"},),
        LlmRequest("m", [{"role": "user", "content": "hi"}]),
    ],
)
async def test_messages_may_be_text_a_list_or_a_request(run: Any, llm: FakeLLM, messages: Any) -> None:
    llm.add_rule(match_contains("hi"), respond_with(body()))

    async def agent(ctx: Any, event: Any) -> Any:
        return (await ctx.complete(messages, model="m", temperature=0)).text

    assert (await run(agent)).outputs == ("hello",)
    assert llm.requests == [LlmRequest("m", [{"role": "user", "content": "hi"}], None, {"temperature": 0})]


async def test_a_request_names_its_own_model_unless_told_otherwise(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body()))
    request = LlmRequest("own", [], None, {"top_p": 1})

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete(request)
        await ctx.complete(request, model="other", temperature=1, tools_schema=[])

    await run(agent)
    assert llm.requests[0] == request
    assert llm.requests[1] == LlmRequest("other", [], [], {"top_p": 1, "temperature": 1})


async def test_anything_else_is_refused(run: Any) -> None:
    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete({"role": "user"})

    outcome = await run(agent)
    assert (outcome.dead_letter.error_type, "not dict" in outcome.dead_letter.message) == ("TypeError", True)


async def test_samples_are_distinct_calls_and_equal_calls_are_one(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body()))

    async def agent(ctx: Any, event: Any) -> Any:
        hits = [(await ctx.complete("q", sample=n)).cache_hit for n in (0, 1, 0)]
        return [*hits, (await ctx.complete("q")).cache_hit]

    assert (await run(agent)).outputs == ([False, False, True, False],)


async def test_reask_shows_the_model_its_answer_and_the_error(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_contains("cannot be used"), respond_with(body('{"good": true}')))
    llm.add_rule(match_any(), respond_with(body('{"good": "perhaps"}')))

    async def agent(ctx: Any, event: Any) -> Any:
        return (await ctx.complete("q", output_schema=Verdict, reask=2)).parsed.good

    outcome = await run(agent)
    assert outcome.outputs == (True,)
    assert [message["role"] for message in llm.requests[1].messages] == ["user", "assistant", "user"]
    assert "good" in llm.requests[1].messages[2]["content"]
    assert outcome.usage.total_tokens == 10
    assert [event.step_index for event in outcome.trace_events[1:]] == [0, 1]


async def test_reask_ends_with_the_last_error(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body("no json")))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q", output_schema=Verdict, reask=2)

    outcome = await run(agent)
    assert (outcome.dead_letter.error_type, outcome.dead_letter.reason) == ("OutputSchemaError", "invalid_json")
    assert llm.call_count == 3
    assert len(outcome.dead_letter.calls) == 3


@pytest.mark.parametrize("reask", [-1, True, "1"])
async def test_reask_must_be_a_count(run: Any, reask: Any) -> None:
    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q", reask=reask)

    assert (await run(agent)).dead_letter.error_type == "ValueError"


async def test_a_step_is_taken_once_for_its_position(run: Any) -> None:
    taken: list[Any] = []

    def charge(amount: int) -> dict[str, int]:
        taken.append(amount)
        return {"charged": amount}

    async def agent(ctx: Any, event: Any) -> Any:
        return [await ctx.step("charge", charge, amount) for amount in (5, 5, 6)]

    first = await run(agent, journal="memory://steps")
    again = await run(agent, journal="memory://steps")
    elsewhere = await run(agent, journal="memory://steps", seq=1)
    assert first.outputs == again.outputs == elsewhere.outputs == ([{"charged": n} for n in (5, 5, 6)],)
    assert taken == [5, 5, 6] * 2


async def test_a_failed_step_is_tried_again(run: Any) -> None:
    tries: list[int] = []

    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return "done"

    async def agent(ctx: Any, event: Any) -> Any:
        return await ctx.step("flaky", flaky)

    assert (await run(agent, journal="memory://flaky")).dead_letter.error_type == "OSError"
    assert (await run(agent, journal="memory://flaky")).outputs == ("done",)


async def test_steps_without_a_journal_are_simply_called(run: Any) -> None:
    async def agent(ctx: Any, event: Any) -> Any:
        return await ctx.step("add", lambda a, b: a + b, 2, 3)

    assert (await run(agent)).outputs == (5,)


@pytest.mark.parametrize(("args", "result"), [((object(),), 1), ((1,), object())])
async def test_steps_take_and_give_json(run: Any, args: Any, result: Any) -> None:
    async def agent(ctx: Any, event: Any) -> Any:
        return await ctx.step("odd", lambda _: result, *args)

    assert (await run(agent, journal="memory://json")).dead_letter.error_type == "TypeError"


def _breaker(threshold: int = 3) -> Any:
    return circuit_breaker_for("http://fake", threshold=threshold, cooldown_ms=1_000)


async def test_a_call_that_finds_the_circuit_opened_waits_through_trials(
    run: Any, llm: FakeLLM, clock: Any, sleep: RecordingSleep
) -> None:
    llm.endpoint = "http://fake"  # type: ignore[attr-defined]
    llm.add_rule(match_any(), fail_then_succeed(error=ServerError(503), times=6, payload=body()))
    for _ in range(3):
        _breaker(5).record_failure(clock())

    async def agent(ctx: Any, event: Any) -> Any:
        return (await ctx.complete("q")).text

    outcome = await run(agent, retry_policy=RetryPolicy(4, 1, 1), breaker_threshold=5, breaker_cooldown_ms=1_000)
    assert outcome.outputs == ("hello",)
    assert llm.call_count == 7
    assert sum(sleep.delays) >= 5_000
    assert [event.attributes["beam_agents.attempts"] for event in outcome.trace_events[1:]] == ["2", *"11111"]
    assert len({event.span_id for event in outcome.trace_events}) == 7


async def test_a_refused_call_that_waits_is_told_once(run: Any, llm: FakeLLM, clock: Any) -> None:
    llm.endpoint = "http://fake"  # type: ignore[attr-defined]
    llm.add_rule(match_any(), respond_with(body()))
    breaker = _breaker()
    for _ in range(3):
        breaker.record_failure(clock())
    assert breaker.state is CircuitState.OPEN

    async def agent(ctx: Any, event: Any) -> Any:
        return (await ctx.complete("q")).text

    outcome = await run(agent, breaker_threshold=3, breaker_cooldown_ms=1_000, retry_policy=RetryPolicy(1, 1, 1))
    assert outcome.outputs == ("hello",)
    assert len(outcome.trace_events) == 2
    assert breaker.state is CircuitState.CLOSED


async def test_without_waiting_a_refused_call_fails(run: Any, llm: FakeLLM, clock: Any) -> None:
    llm.endpoint = "http://fake"  # type: ignore[attr-defined]
    breaker = _breaker()
    for _ in range(3):
        breaker.record_failure(clock())

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")

    fields = {"breaker_threshold": 3, "breaker_cooldown_ms": 1_000, "retry_policy": RetryPolicy(1, 1, 1)}
    outcome = await run(agent, on_open="dead_letter", **fields)
    assert outcome.dead_letter.error_type == "CircuitOpenError"
    assert llm.call_count == 0


async def test_waiting_ends_with_the_deadline(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), failing(ServerError(503)))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")

    outcome = await run(
        agent,
        activation_timeout_s=10,
        breaker_threshold=2,
        breaker_cooldown_ms=3_000,
        retry_policy=RetryPolicy(1, 0, 0),
    )
    assert outcome.dead_letter.error_type in ("CircuitOpenError", "ServerError")
    assert 1 <= llm.call_count <= 5


async def test_an_answer_in_the_journal_needs_no_closed_circuit(run: Any, llm: FakeLLM, clock: Any) -> None:
    llm.endpoint = "http://fake"  # type: ignore[attr-defined]
    llm.add_rule(match_any(), respond_with(body()))

    async def agent(ctx: Any, event: Any) -> Any:
        return (await ctx.complete("q")).cache_hit

    fields = {"breaker_threshold": 3, "breaker_cooldown_ms": 1_000, "retry_policy": RetryPolicy(1, 1, 1)}
    await run(agent, journal="memory://open", **fields)
    for _ in range(3):
        _breaker().record_failure(clock())
    assert (await run(agent, journal="memory://open", **fields)).outputs == (True,)
    assert llm.call_count == 1
