"""What an activation adds to the counters and distributions of every engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from beam_agents.activation import DeadLetter
from beam_agents.activation.metrics import COUNTERS, DISTRIBUTIONS, Measures
from beam_agents.activation.staging import Position
from beam_agents.errors import ServerError
from beam_agents.model import RetryPolicy
from beam_agents.testing import FakeLLM, fail_then_succeed, match_any, raise_error, respond_with
from tests.activation.conftest import SCOPE, body

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


class Answer(BaseModel):
    n: int


def measured(*outcomes: Any) -> Measures:
    measures = Measures()
    for outcome in outcomes:
        measures.add(outcome)
    return measures


async def test_a_committed_activation_counts_its_calls_requests_waits_and_tokens(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), fail_then_succeed(error=ServerError(503), times=1, payload=body("yes", 7)))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")
        await ctx.complete("q")

    found = measured(await run(agent, retry_policy=RetryPolicy(2, 100, 100)))
    waited = found.counts["waited_ms"]
    assert 0 < waited <= 100
    assert +found.counts == {
        "activations_committed": 1,
        "calls": 2,
        "attempts": 2,
        "retries": 1,
        "cache_hits": 1,
        "waited_ms": waited,
        "input_tokens": 6,
        "output_tokens": 1,
    }
    (took_ms,) = found.values.pop("call_ms")
    assert abs(took_ms - waited) <= 1
    assert found.values == {
        "activation_ms": [took_ms],
        "call_waited_ms": [waited],
        "call_attempts": [2],
        "call_input_tokens": [6],
        "call_output_tokens": [1],
    }


async def test_a_dead_letter_is_counted_by_its_kind_with_what_it_paid(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body("no json", 7)))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q", output_schema=Answer)

    found = measured(await run(agent))
    assert found.counts["dead_letters_OutputSchemaError_invalid_json"] == found.counts["activations_failed"] == 1
    assert (found.counts["failed_calls"], found.counts["input_tokens"]) == (1, 6)
    assert len(found.values["activation_ms"]) == 1


@pytest.mark.parametrize("reason", ["", "card 4111 1111", "x" * 41, 7])
def test_a_reason_that_is_not_one_word_is_in_no_name(reason: Any) -> None:
    error = ValueError("no")
    error.reason = reason  # type: ignore[attr-defined]
    assert DeadLetter.of(Position(SCOPE, b"k", 0), "event", error).kind == "ValueError"


async def test_what_is_counted_is_in_the_table(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), raise_error(ServerError(503)))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")

    found = measured(await run(agent, retry_policy=RetryPolicy(2, 1, 1)))
    assert {name for name in found.counts if not name.startswith("dead_letters_")} <= COUNTERS.keys()
    assert found.values.keys() <= DISTRIBUTIONS.keys()


async def test_every_opening_of_a_circuit_is_told_once(run: Any, resources: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), raise_error(ServerError(503)))

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete("q")

    shared = resources(breaker_threshold=2, on_open="dead_letter", retry_policy=RetryPolicy(1, 0, 0))
    breaker = shared.model().breaker
    for now_ms in (0, 20_000):
        breaker.record_failure(now_ms)
    assert [shared.take_breaker_opens(), shared.take_breaker_opens()] == [1, 0]


def test_the_page_names_every_counter_and_distribution() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", PAGE.read_text("utf-8"), re.M))
    assert {name: rows.get(name) for name in COUNTERS} == COUNTERS
    assert {name: rows.get(name) for name in DISTRIBUTIONS} == DISTRIBUTIONS
