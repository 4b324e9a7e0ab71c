"""`on_divergence="rerun"`: an activation that asks something else than an earlier run is started again."""

from __future__ import annotations

from typing import Any

import pytest

from beam_agents.activation import Outcome
from beam_agents.activation.run import Activation, run_activation
from beam_agents.activation.staging import Position
from beam_agents.errors import DivergenceError
from beam_agents.proto import TraceEvent
from beam_agents.report.account import SpendClass
from beam_agents.report.dead_letters import Letter
from beam_agents.report.gather import Gathering
from beam_agents.testing import FakeLLM, match_any, respond_with
from tests.activation.conftest import SCOPE, body

JOURNAL = "memory://rerun"


def asking(*questions: str, fails: bool = False) -> Any:
    async def agent(ctx: Any, event: Any) -> list[str]:
        answers = [(await ctx.complete(question)).text for question in questions]
        if fails:
            raise KeyError("no")
        return answers

    return agent


class Endpoint(FakeLLM):
    """Answers each request with a text and a cost of its own."""

    async def complete(self, request: Any) -> Any:
        self._rules.clear()
        number = self.call_count + 1
        self.add_rule(match_any(), respond_with(body(f"answer {number}", 10 + number)))
        return await super().complete(request)

    @property
    def tokens(self) -> int:
        return sum(10 + number for number in range(1, self.call_count + 1))


@pytest.fixture
def llm() -> FakeLLM:
    return Endpoint()


def account(*outcomes: Outcome) -> dict[SpendClass, tuple[int, int]]:
    """Requests and tokens by class, as the reports tell them."""
    gathering = Gathering()
    for outcome in outcomes:
        for event in outcome.trace_events:
            gathering.add_event(event)
    for outcome in outcomes:
        if outcome.dead_letter is not None:
            gathering.add_dead_letter(Letter.from_json(outcome.dead_letter.to_json()))
    found = {spend: gathering.account.of_class(spend) for spend in SpendClass}
    return {spend: (tally.requests, tally.tokens) for spend, tally in found.items() if tally.requests}


def answered(spent: dict[SpendClass, tuple[int, int]]) -> int:
    return sum(spent.get(one, (0, 0))[1] for one in (SpendClass.BILLED, SpendClass.RECOVERED, SpendClass.DISCARDED))


async def test_what_comes_before_the_divergence_is_replayed_and_all_after_it_is_asked_anew(run: Any, llm: Any) -> None:
    first = await run(asking("a", "b", "c"), journal=JOURNAL)
    again = await run(asking("a", "B", "c"), journal=JOURNAL, on_divergence="rerun")
    assert first.outputs == (["answer 1", "answer 2", "answer 3"],)
    assert again.outputs == (["answer 1", "answer 4", "answer 5"],)
    calls = [event for event in again.trace_events if event.event_type == TraceEvent.LLM_CALL]
    assert [event.attributes["beam_agents.replay"] for event in calls[:2]] == ["journal", "diverged"]
    assert calls[1].attributes["beam_agents.diverged_fields"] == "messages[0].content"


@pytest.mark.parametrize("reported", [True, False])
@pytest.mark.parametrize("fails", [True, False])
async def test_every_answer_stays_in_the_account_whether_or_not_the_first_run_reported_it(
    run: Any, llm: Any, reported: bool, fails: bool
) -> None:
    first = await run(asking("a", "b", "c"), journal=JOURNAL)
    again = await run(asking("a", "B", "c", fails=fails), journal=JOURNAL, on_divergence="rerun")
    assert again.committed is not fails
    spent = account(*((first, again) if reported else (again,)))
    assert sum(requests for requests, _ in spent.values()) == llm.call_count == 5
    assert answered(spent) == llm.tokens
    if not reported and not fails:
        tokens = {SpendClass.BILLED: (2, 14 + 15), SpendClass.RECOVERED: (1, 11), SpendClass.DISCARDED: (2, 12 + 13)}
        assert spent == tokens


async def test_an_activation_is_started_again_once_and_then_pays(run: Any, llm: Any) -> None:
    starts = []

    async def restless(ctx: Any, event: Any) -> str:
        starts.append(ctx)
        return str((await ctx.complete(f"start {len(starts)}")).text)

    await run(asking("a"), journal=JOURNAL)
    outcome = await run(restless, journal=JOURNAL, on_divergence="rerun")
    assert len(starts) == 2
    assert outcome.outputs == ("answer 2",)
    assert [request.messages[0]["content"] for request in llm.requests] == ["a", "start 2"]


async def test_an_agent_that_swallows_the_divergence_is_started_again_all_the_same(run: Any, llm: Any) -> None:
    async def stubborn(ctx: Any, event: Any) -> str:
        try:
            return str((await ctx.complete("B")).text)
        except DivergenceError:
            with pytest.raises(RuntimeError, match="is over"):
                await ctx.complete("something else")
            return "swallowed"

    await run(asking("b"), journal=JOURNAL)
    assert (await run(stubborn, journal=JOURNAL, on_divergence="rerun")).outputs == ("answer 2",)


async def test_the_run_after_a_rerun_is_free_and_a_return_to_the_old_way_pays_anew(run: Any, llm: Any) -> None:
    await run(asking("a", "b"), journal=JOURNAL)
    await run(asking("a", "B"), journal=JOURNAL, on_divergence="rerun")
    assert (await run(asking("a", "B"), journal=JOURNAL, on_divergence="rerun")).outputs == (["answer 1", "answer 3"],)
    back = await run(asking("a", "b"), journal=JOURNAL, on_divergence="rerun")
    assert back.outputs == (["answer 1", "answer 4"],)
    assert answered(account(back)) == 11 + 12 + 13 + 14


async def test_steps_after_the_divergence_are_taken_again_and_earlier_ones_are_not(run: Any, llm: Any) -> None:
    taken = []

    def agent(question: str) -> Any:
        async def stepping(ctx: Any, event: Any) -> Any:
            before = await ctx.step("before", lambda: len(taken) or taken.append("before"))
            await ctx.complete(question)
            return [before, await ctx.step("after", lambda: taken.append("after"))]

        return stepping

    await run(agent("a"), journal=JOURNAL)
    outcome = await run(agent("A"), journal=JOURNAL, on_divergence="rerun")
    assert taken == ["before", "after", "after"]
    assert account(outcome) == {SpendClass.BILLED: (1, 12), SpendClass.DISCARDED: (1, 11)}


async def test_a_replay_cache_in_the_key_s_state_does_not_bring_the_old_answers_back(
    resources: Any, run: Any, llm: Any
) -> None:
    def sequence(event: Any) -> int:
        return 0

    first = await run(asking("a", "b", "c"), journal=JOURNAL, sequence=sequence)
    again = Activation(asking("a", "B", "c"), "event", Position(SCOPE, b"k", 0), cache=first.cache)
    outcome = await run_activation(again, resources(journal=JOURNAL, sequence=sequence, on_divergence="rerun"))
    assert outcome.outputs == (["answer 1", "answer 4", "answer 5"],)
