"""What a pipeline of agents puts out."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import orjson
import pytest
from apache_beam.coders import RowCoder
from apache_beam.metrics.metric import MetricsFilter

from beam_agents.beam.outputs import DeadLetterCoder
from beam_agents.beam.rows import DeadLetterRow, dead_letter_row
from beam_agents.beam.transform import _keyed as keyed
from beam_agents.errors import ServerError
from beam_agents.model import RetryPolicy
from beam_agents.proto import TraceEvent
from beam_agents.testing import fail_then_succeed, match_any, match_contains, raise_error
from tests.beam import scripted
from tests.beam.conftest import config


async def test_every_event_is_answered_through_the_facade(run: Any) -> None:
    scripted.answer_all()
    run([(f"k{i}", i) for i in range(20)], scripted.greeter)
    assert sorted(scripted.kept["main"]) == sorted((f"k{i}", 0, i, "hello") for i in range(20))
    assert scripted.llm.call_count == 20
    assert scripted.kept["errors"] == []


def test_a_committed_activation_has_one_activation_event_above_its_calls(run: Any) -> None:
    scripted.answer_all()
    run([("k", "a")], scripted.greeter)
    activation, call = sorted(scripted.kept["traces"], key=lambda event: -event.event_type)
    assert (activation.event_type, call.event_type) == (TraceEvent.ACTIVATION, TraceEvent.LLM_CALL)
    assert activation.attributes["beam_agents.outcome"] == "committed"
    assert call.parent_span_id == activation.span_id
    assert call.trace_id == activation.trace_id
    assert call.attributes["gen_ai.usage.input_tokens"] == "3"


def test_calls_of_one_bundle_overlap_up_to_the_cap(run: Any) -> None:
    scripted.answer_all(latency_ms=20)
    run([(f"k{i}", i) for i in range(40)], scripted.greeter, config(max_in_flight=8))
    assert 1 < scripted.gauge.peak <= 8


def test_events_of_one_key_run_one_after_another_in_order(run: Any) -> None:
    scripted.llm.add_rule(
        match_contains("first"),
        fail_then_succeed(error=ServerError(503), times=1, payload=scripted.ANSWER, latency_ms=10),
    )
    scripted.answer_all()
    pairs = [("k", f"{'first' if n == 0 else 'later'}-{n}") for n in range(6)]
    run(pairs, scripted.greeter, config(retry_policy=RetryPolicy(2, 1, 1)))
    assert [(seq, event) for _, seq, event, _ in scripted.kept["main"]] == [(n, pairs[n][1]) for n in range(6)]


def test_a_key_with_many_events_does_not_keep_the_others_out(run: Any) -> None:
    scripted.answer_all()
    pairs = [("hot", n) for n in range(60)] + [(f"k{n}", 0) for n in range(20)]
    run(pairs, scripted.greeter, config(max_in_flight=2))
    seqs = defaultdict(list)
    for key, seq, _, _ in scripted.kept["main"]:
        seqs[key].append(seq)
    assert seqs["hot"] == list(range(60))
    assert len(seqs) == 21


async def _emitting(ctx: Any, event: Any) -> Any:
    for part in event:
        ctx.emit(part)
    if event == ["returned"]:
        return "after"
    return None


def test_what_is_emitted_and_returned_comes_out(run: Any) -> None:
    run([("a", ["x", "y"]), ("b", ["returned"]), ("c", [])], _emitting)
    assert sorted(scripted.kept["main"]) == ["after", "returned", "x", "y"]


async def _counting(ctx: Any, event: Any) -> Any:
    ctx.state = (ctx.state or 0) + 1
    if event == "bad":
        raise ValueError("no")
    return ctx.seq, ctx.state


def test_state_is_kept_for_the_key_and_rolls_back_with_a_failed_activation(run: Any) -> None:
    run([("k", "good"), ("k", "bad"), ("k", "good")], _counting)
    assert scripted.kept["main"] == [(0, 1), (2, 2)]
    assert [(letter.seq, letter.error_type) for letter in scripted.kept["errors"]] == [(1, "ValueError")]


def test_keys_may_be_text_or_bytes(run: Any) -> None:
    scripted.answer_all()
    run([(b"k1", 1)], scripted.greeter)
    run([("k2", 2)], scripted.greeter)
    assert sorted(one[0] for one in scripted.kept["main"]) == ["k1", "k2"]


def test_a_dead_letter_carries_event_error_and_spend(run: Any) -> None:
    scripted.llm.add_rule(match_any(), raise_error(ServerError(503)))
    run([("k", {"id": 7})], scripted.greeter, config(retry_policy=RetryPolicy(2, 0, 0)))
    (letter,) = scripted.kept["errors"]
    assert (letter.entity_key, letter.seq, letter.event) == (b"k", 0, {"id": 7})
    assert (letter.error_type, letter.attempts) == ("ServerError", 2)
    assert [call.class_ for call in letter.calls] == ["failed", "failed"]
    assert [event.event_type for event in letter.trace_events] == [TraceEvent.ACTIVATION, TraceEvent.LLM_CALL]
    assert scripted.kept["traces"] == scripted.kept["main"] == []


class _Speechless(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")

    @property
    def reason(self) -> str:
        raise LookupError("no reason")


async def _odd(ctx: Any, event: Any) -> Any:
    if event == "half":
        error = ValueError("the model answered \ud83d with sk-live-0123456789")
        error.reason = "half \ud83d"  # type: ignore[attr-defined]
        raise error
    if event == "speechless":
        raise _Speechless
    return event


def test_no_error_fails_the_bundle_by_its_words(run: Any) -> None:
    run([("k", "half"), ("k", "speechless"), ("k", "good")], _odd)
    half, speechless = scripted.kept["errors"]
    assert (half.message, half.reason) == ("the model answered ? with …", "half ?")
    assert (speechless.error_type, speechless.message, speechless.reason) == ("_Speechless", "_Speechless", None)
    assert scripted.kept["main"] == ["good"]
    assert all(DeadLetterCoder().decode(DeadLetterCoder().encode(letter)) == letter for letter in (half, speechless))
    assert RowCoder.from_type_hint(DeadLetterRow, None).encode(dead_letter_row(half))


def test_a_key_that_cannot_be_written_is_named_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"key 'k\\ud83d' as UTF-8.*make it bytes"):
        keyed(("k\ud83d", 1))


async def _paying_then_failing(ctx: Any, event: Any) -> None:
    await ctx.complete(event)
    raise RuntimeError("after the call")


def test_tokens_of_a_failed_activation_are_discarded_and_told(run: Any) -> None:
    scripted.answer_all()
    run([("k", "x")], _paying_then_failing)
    (letter,) = scripted.kept["errors"]
    ((_, spend, usage),) = letter.calls
    assert (spend, usage.total_tokens) == ("discarded", 5)


async def _never(ctx: Any, event: Any) -> None:
    await asyncio.Event().wait()


def test_an_activation_past_its_deadline_is_a_dead_letter(run: Any) -> None:
    run([("k", "x")], _never, config(activation_timeout_s=0.05))
    assert [letter.error_type for letter in scripted.kept["errors"]] == ["ActivationTimeout"]


async def _deaf(ctx: Any, event: Any) -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            scripted.marks["cancelled"] += 1


async def _leaving(ctx: Any, event: Any) -> None:
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt()}[event]


def test_an_agent_that_raises_base_exceptions_hangs_nothing(run: Any) -> None:
    run([("a", "exit"), ("b", "interrupt")], _leaving)
    assert sorted(letter.error_type for letter in scripted.kept["errors"]) == ["KeyboardInterrupt", "SystemExit"]


async def _spawning(ctx: Any, event: Any) -> str:
    async def leave() -> None:
        raise SystemExit(3)

    task = asyncio.ensure_future(leave())
    await asyncio.wait((task,))
    return type(task.exception()).__name__


def test_a_task_of_an_agent_that_raises_system_exit_does_not_end_the_loop(run: Any) -> None:
    run([("a", 1), ("b", 2)], _spawning)
    assert scripted.kept["main"] == ["SystemExit"] * 2


async def _careless(ctx: Any, event: Any) -> Any:
    return ctx.complete("never awaited")


def test_a_result_that_was_not_awaited_is_a_dead_letter_that_says_so(run: Any) -> None:
    run([("k", 1)], _careless)
    (letter,) = scripted.kept["errors"]
    assert "await" in letter.message


async def _recalling(ctx: Any, event: Any) -> Any:
    result = await ctx.complete("same question")
    return result.cache_hit, ctx.seq


def test_a_redelivered_event_is_answered_from_the_keys_cache(run: Any) -> None:
    scripted.answer_all()
    settings = config(sequence=lambda event: event["id"])
    run([("k", {"id": 5}), ("k", {"id": 6}), ("k", {"id": 5})], _recalling, settings)
    assert scripted.kept["main"] == [(False, 5), (False, 6), (True, 5)]
    assert scripted.llm.call_count == 2


def test_a_sequence_that_fails_is_a_dead_letter(run: Any) -> None:
    run([("k", {"id": "x"}), ("k", {})], _recalling, config(sequence=lambda event: event["id"]))
    assert sorted(letter.error_type for letter in scripted.kept["errors"]) == ["KeyError", "TypeError"]


def test_an_undecodable_answer_is_in_doubt_on_its_dead_letter(run: Any) -> None:
    scripted.answer_all(orjson.dumps({"odd": 1}))
    run([("k", 1)], scripted.greeter)
    (letter,) = scripted.kept["errors"]
    assert (letter.error_type, [call.class_ for call in letter.calls]) == ("ResponseDecodeError", ["in_doubt"])


def test_an_outage_is_waited_out_without_dead_letters(run: Any) -> None:
    scripted.outage(40)
    scripted.answer_all(latency_ms=2)
    settings = config(retry_policy=RetryPolicy(4, 50, 50), breaker_threshold=5, breaker_cooldown_ms=10)
    run([(f"k{i}", i) for i in range(100)], scripted.greeter, settings)
    assert scripted.kept["errors"] == []
    assert len(scripted.kept["main"]) == 100


def test_the_time_that_a_rate_costs_is_reported_where_runners_look(run: Any) -> None:
    scripted.answer_all()
    result = run([(f"k{i}", i) for i in range(6)], scripted.greeter, config(requests_per_minute=120))
    found = result.metrics().query(MetricsFilter().with_name("cumulativeThrottlingSeconds"))["counters"]
    assert len(scripted.kept["main"]) == 6
    assert sum(counter.committed for counter in found) >= 1
