"""Activations run once more from their journal: the way they took, and where another one would be taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from beam_agents.activation import AgentConfig, activation_loop
from beam_agents.activation.replay import Replay, Story, replay
from beam_agents.errors import ProviderError, ProviderTimeout, ServerError
from beam_agents.journals import CORRUPT, RecordFilter, open_journal, open_reader
from beam_agents.journals.memory import _shelves
from beam_agents.model import RetryPolicy
from beam_agents.testing import FakeLLM, ManualClock, match_contains, raise_error, respond_with
from tests.activation.conftest import SCOPE, body, decode

URI = "memory://replay"
ONCE = RetryPolicy(1, 0, 0)
Run = Callable[..., Awaitable[Any]]
Again = Callable[..., Awaitable[Replay]]


@pytest.fixture
def again(llm: FakeLLM, clock: ManualClock) -> Again:
    """Replays the last of the events; asking the model anything fails the test."""

    async def _again(agent: Any, *events: Any, what_if: AgentConfig | None = None) -> Replay:
        asked = llm.call_count
        config = AgentConfig(provider=lambda: llm, decode=decode)
        replays = await replay(
            Story(agent, b"k", events or ("event",), SCOPE.label),
            config,
            open_reader(URI, now_ms=clock),
            activation_loop(),
            what_if=what_if,
        )
        assert llm.call_count == asked
        return replays[-1]

    return _again


@pytest.fixture(autouse=True)
def answers(llm: FakeLLM) -> FakeLLM:
    for text, tokens in (("first", 5), ("second", 7), ("third", 9)):
        llm.add_rule(match_contains(text), respond_with(body(f"answer to {text}", tokens)))
    return llm


async def two_calls(ctx: Any, event: Any) -> Any:
    first = await ctx.complete(f"first {event}")
    second = await ctx.complete([{"role": "system", "content": "be brief"}, {"role": "user", "content": "second"}])
    return [first.text, second.text]


async def test_an_activation_is_reproduced_without_a_call(run: Run, again: Again) -> None:
    await run(two_calls, journal=URI)
    told = await again(two_calls)
    assert told.verdict == "reproduced"
    assert [(call.step_index, call.source) for call in told.calls] == [(0, "journal"), (1, "journal")]
    assert [call.usage.total_tokens for call in told.calls if call.usage] == [5, 7]
    assert told.outcome.outputs == (["answer to first", "answer to second"],)
    assert told.calls[0].text == "answer to first"
    assert len(told.calls[0].text_digest or "") == 64


async def test_a_changed_request_is_told_by_field(run: Run, again: Again) -> None:
    async def changed(ctx: Any, event: Any) -> Any:
        await ctx.complete(f"first {event}")
        await ctx.complete([{"role": "system", "content": "be long"}, {"role": "user", "content": "second"}])

    await run(two_calls, journal=URI)
    told = await again(changed)
    assert told.verdict == "diverged"
    deviation = told.deviation
    assert deviation is not None
    assert (deviation.step_index, deviation.changed) == (1, ("messages[0].content",))
    assert told.outcome.dead_letter is not None
    assert told.outcome.dead_letter.error_type == "DivergenceError"


async def test_an_agent_that_catches_everything_does_not_hide_a_divergence(run: Run, again: Again) -> None:
    async def changed(ctx: Any, event: Any) -> Any:
        try:
            await ctx.complete("first, but otherwise")
        except Exception:
            return "fallback"

    await run(two_calls, journal=URI)
    told = await again(changed)
    assert (told.verdict, told.outcome.outputs) == ("diverged", ("fallback",))


async def test_what_the_journal_has_never_seen_is_not_in_it(run: Run, again: Again) -> None:
    async def more(ctx: Any, event: Any) -> Any:
        await two_calls(ctx, event)
        await ctx.complete("third")

    await run(two_calls, journal=URI)
    assert (await again(two_calls, "event", "other event")).verdict == "not_in_journal"
    told = await again(more)
    assert told.verdict == "not_in_journal"
    assert told.deviation is not None
    assert told.deviation.step_index == 2


async def test_an_agent_that_asks_less_has_diverged(run: Run, again: Again) -> None:
    async def fewer(ctx: Any, event: Any) -> Any:
        await ctx.complete(f"first {event}")

    await run(two_calls, journal=URI)
    told = await again(fewer)
    assert told.verdict == "diverged"
    assert [record.call.step_index for record in told.unmade] == [1]


async def test_calls_of_an_earlier_version_of_the_agent_do_not_count(
    run: Run, again: Again, clock: ManualClock
) -> None:
    async def later(ctx: Any, event: Any) -> Any:
        await ctx.complete("third")

    await run(two_calls, journal=URI)
    clock.advance(1000)
    await run(later, journal=URI)
    assert (await again(later)).verdict == "reproduced"
    assert (await again(two_calls)).verdict == "reproduced"


async def test_the_state_of_earlier_events_is_there(run: Run, again: Again) -> None:
    async def counting(ctx: Any, event: Any) -> Any:
        ctx.state = [*(ctx.state or []), (await ctx.complete(f"first {event} after {ctx.state}")).text]
        return len(ctx.state)

    first = await run(counting, "a", journal=URI)
    await run(counting, "b", seq=1, state=first.state, journal=URI)
    told = await again(counting, "a", "b")
    assert (told.verdict, told.outcome.outputs) == ("reproduced", (2,))


async def test_an_earlier_event_that_diverges_gets_the_recorded_answers(
    run: Run, llm: FakeLLM, clock: ManualClock
) -> None:
    async def counting(ctx: Any, event: Any) -> Any:
        answer = await ctx.complete(f"first {event}")
        ctx.state = [*(ctx.state or []), answer.text]
        return (await ctx.complete(f"second, after {ctx.state}")).text

    first = await run(counting, "a", journal=URI)
    await run(counting, "b", seq=1, state=first.state, journal=URI)
    story = Story(counting, b"k", ("another a", "b"), SCOPE.label)
    config = AgentConfig(provider=lambda: llm, decode=decode)
    asked = llm.call_count
    replays = await replay(story, config, open_reader(URI, now_ms=clock), activation_loop())
    assert [one.verdict for one in replays] == ["diverged", "reproduced"]
    assert [call.source for call in replays[0].calls] == ["stand_in", "journal"]
    assert replays[0].calls[0].changed == ("messages[0].content",)
    assert llm.call_count == asked


async def test_steps_are_taken_from_the_journal_and_never_run(run: Run, again: Again) -> None:
    ran: list[int] = []

    async def stepping(ctx: Any, event: Any) -> Any:
        return await ctx.step("add", lambda n: ran.append(n) or n + 1, 1 if event == "event" else 2)

    await run(stepping, journal=URI)
    told = await again(stepping)
    assert (told.verdict, told.outcome.outputs, ran) == ("reproduced", (2,), [1])
    assert (told.calls[0].kind, told.calls[0].text) == ("step", "2")
    diverged = await again(stepping, "other")
    assert (diverged.verdict, diverged.deviation and diverged.deviation.changed, ran) == ("diverged", (), [1])


@pytest.mark.parametrize("error", [ServerError(503), ProviderTimeout()], ids=lambda error: type(error).__name__)
async def test_a_call_that_failed_fails_again_in_the_same_way(
    run: Run, again: Again, llm: FakeLLM, error: ProviderError
) -> None:
    async def falling_back(ctx: Any, event: Any) -> Any:
        try:
            await ctx.complete("unlucky")
        except ProviderError as caught:
            return [type(caught).__name__, caught.status, (await ctx.complete("second")).text]

    llm.add_rule(match_contains("unlucky"), raise_error(error))
    await run(falling_back, journal=URI, retry_policy=RetryPolicy(3, 1, 1))
    told = await again(falling_back)
    assert told.verdict == "reproduced"
    assert [call.source for call in told.calls] == ["failure", "journal"]
    assert told.outcome.outputs == ([type(error).__name__, error.status, "answer to second"],)


async def test_a_failed_step_fails_again(run: Run, again: Again) -> None:
    def broken() -> None:
        raise KeyError("no such thing")

    async def stepping(ctx: Any, event: Any) -> Any:
        try:
            await ctx.step("broken", broken)
        except KeyError:
            return "caught"

    await run(stepping, journal=URI)
    told = await again(stepping)
    assert (told.verdict, told.outcome.outputs) == ("reproduced", ("caught",))


async def test_a_call_that_was_cut_off_is_not_in_the_journal(run: Run, again: Again, llm: FakeLLM) -> None:
    llm.add_rule(match_contains("slow"), respond_with(body(), latency_ms=60_000))

    async def slow(ctx: Any, event: Any) -> Any:
        await ctx.complete("slow")

    await run(slow, journal=URI, activation_timeout_s=0.05)
    told = await again(slow)
    assert told.verdict == "not_in_journal"
    assert told.deviation is not None
    assert told.deviation.record is not None


async def test_a_second_ask_after_an_unfit_answer_is_reproduced(run: Run, again: Again, llm: FakeLLM) -> None:
    class Fit(BaseModel):
        good: bool

    async def insisting(ctx: Any, event: Any) -> Any:
        return (await ctx.complete("judge", output_schema=Fit, reask=1)).parsed.good

    llm.add_rule(match_contains("cannot be used"), respond_with(body('{"good": true}')))
    llm.add_rule(match_contains("judge"), respond_with(body('{"good": "perhaps"}')))
    assert (await run(insisting, journal=URI)).outputs == (True,)
    told = await again(insisting)
    assert (told.verdict, told.outcome.outputs, len(told.calls)) == ("reproduced", (True,), 2)


async def test_a_damaged_answer_is_not_in_the_journal(run: Run, again: Again) -> None:
    await run(two_calls, journal=URI)
    for attempts in _shelves["replay"].calls.values():
        for attempt in attempts:
            attempt.row = attempt.row._replace(stored=b"something else")
    told = await again(two_calls)
    assert told.verdict == "not_in_journal"
    assert told.deviation is not None
    assert told.deviation.record is not None
    assert told.deviation.record.error_type == CORRUPT


async def test_equal_calls_and_calls_at_once_are_told(run: Run, again: Again) -> None:
    async def gathering(ctx: Any, event: Any) -> Any:
        await asyncio.gather(*(ctx.complete(text) for text in ("first", "second", "third")))
        await ctx.complete("first")

    await run(gathering, journal=URI)
    told = await again(gathering)
    assert told.verdict == "reproduced"
    assert [call.source for call in told.calls] == ["journal", "journal", "journal", "activation"]
    assert told.calls[3].call_id == told.calls[0].call_id


async def test_the_clock_stands_where_the_first_call_began(run: Run, again: Again, clock: ManualClock) -> None:
    async def dated(ctx: Any, event: Any) -> Any:
        await ctx.complete(f"first at {ctx.now_ms()}")

    await run(dated, journal=URI)
    clock.advance(50_000)
    assert (await again(dated)).verdict == "reproduced"


async def test_another_model_shows_what_would_be_paid(
    run: Run, again: Again, llm: FakeLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mixed(ctx: Any, event: Any) -> Any:
        first = await ctx.complete("first")
        kept = await ctx.step("twice", lambda text: text * 2, first.text)
        return [kept, (await ctx.complete("second")).text]

    await run(mixed, journal=URI)
    told = await again(mixed, what_if=AgentConfig("openai:gpt-4o-mini"))
    assert [call.source for call in told.calls] == ["stand_in", "journal", "stand_in"]
    assert [call.model_id for call in told.calls if call.kind == "call"] == ["gpt-4o-mini", "gpt-4o-mini"]
    assert told.outcome.outputs == (["answer to firstanswer to first", "answer to second"],)
    assert told.outcome.usage.total_tokens == 0


async def test_a_replay_writes_nothing(run: Run, again: Again, clock: ManualClock) -> None:
    async def records() -> list[Any]:
        return [record async for record in open_reader(URI, now_ms=clock).records(RecordFilter())]

    await run(two_calls, journal=URI)
    before = await records()
    await again(two_calls)
    await again(two_calls, "another")
    assert await records() == before


async def test_an_empty_journal_is_no_reproduction(again: Again, clock: ManualClock) -> None:
    async def silent(ctx: Any, event: Any) -> Any:
        return 1

    await open_journal(URI, now_ms=clock).aclose()
    assert (await again(silent)).verdict == "not_in_journal"
