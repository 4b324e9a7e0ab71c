"""Beam's metrics add up to exactly what the outputs tell, and a bundle that failed is not in them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.ml.inference.base import RunInference

from beam_agents import attributes as names
from beam_agents.activation.metrics import COUNTERS, DISTRIBUTIONS
from beam_agents.beam import RunAgent
from beam_agents.beam.model_handler import FacadeModelHandler
from beam_agents.errors import ServerError
from beam_agents.model import RetryPolicy
from beam_agents.proto import TraceEvent
from beam_agents.testing import match_any, match_contains, raise_error, respond_with
from tests.beam import scripted
from tests.beam.conftest import config, options

OURS = MetricsFilter().with_namespace("beam_agents")
USAGE = {
    "input_tokens": names.GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": names.GEN_AI_USAGE_OUTPUT_TOKENS,
    "cached_tokens": names.GEN_AI_USAGE_CACHED_TOKENS,
    "reasoning_tokens": names.GEN_AI_USAGE_REASONING_TOKENS,
}


def counters(result: Any) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in result.metrics().query(OURS)["counters"]:
        found[one.key.metric.name] += one.committed
    return dict(+found)


def distributions(result: Any) -> dict[str, tuple[int, int, int, int]]:
    found = {one.key.metric.name: one.committed for one in result.metrics().query(OURS)["distributions"]}
    return {name: (one.count, one.sum, one.min, one.max) for name, one in found.items()}


def shape(values: list[int]) -> tuple[int, int, int, int]:
    return len(values), sum(values), min(values), max(values)


def number(event: TraceEvent, name: str) -> int:
    return int(event.attributes.get(name, 0))


def told_counts(calls: list[TraceEvent]) -> dict[str, int]:
    """What the outputs say, put together without the code under test."""
    committed = sum(event.event_type == TraceEvent.ACTIVATION for event in scripted.kept["traces"])
    letters = scripted.kept["errors"]
    billed = [call for call in calls if call.attributes[names.BILLED] == "true"]
    told = {
        "activations_committed": committed,
        "activations_failed": len(letters),
        "calls": len(calls),
        "attempts": sum(number(call, names.ATTEMPTS) for call in calls),
        "retries": sum(max(0, number(call, names.ATTEMPTS) - 1) for call in calls),
        "failed_calls": sum(names.ERROR_TYPE in call.attributes for call in calls),
        "cache_hits": sum(call.attributes[names.CACHE_HIT] == "true" for call in calls),
        "recovered_calls": sum(call.attributes.get(names.REPLAY) == "journal" for call in calls),
        "in_doubt": sum(number(call, names.IN_DOUBT) for call in calls),
        "waited_ms": sum(number(call, names.WAITED_MS) for call in calls),
        **{counter: sum(number(call, name) for call in billed) for counter, name in USAGE.items()},
        **Counter(f"dead_letters_{letter.error_type}" for letter in letters),
    }
    return {name: count for name, count in told.items() if count}


def told_values(calls: list[TraceEvent]) -> dict[str, tuple[int, int, int, int]]:
    events = [event for letter in scripted.kept["errors"] for event in letter.trace_events]
    activations = [event for event in (*scripted.kept["traces"], *events) if event.event_type == TraceEvent.ACTIVATION]
    asked = [call for call in calls if call.attributes[names.CACHE_HIT] == "false"]
    billed = [call for call in calls if call.attributes[names.BILLED] == "true"]
    told = {
        "activation_ms": [one.end_ms - one.start_ms for one in activations],
        "call_ms": [one.end_ms - one.start_ms for one in asked],
        "call_waited_ms": [number(one, names.WAITED_MS) for one in asked],
        "call_attempts": [number(one, names.ATTEMPTS) for one in asked],
        "call_input_tokens": [number(one, names.GEN_AI_USAGE_INPUT_TOKENS) for one in billed],
        "call_output_tokens": [number(one, names.GEN_AI_USAGE_OUTPUT_TOKENS) for one in billed],
    }
    return {name: shape(values) for name, values in told.items() if values}


def kept_calls() -> list[TraceEvent]:
    events = [*scripted.kept["traces"], *(one for letter in scripted.kept["errors"] for one in letter.trace_events)]
    return [event for event in events if event.event_type == TraceEvent.LLM_CALL]


async def _varied(ctx: Any, event: int) -> Any:
    result = await ctx.complete(f"question {event}")
    await ctx.complete(f"question {event}")
    if event % 7 == 3:
        raise LookupError("paid, and then failed")
    return result.text


def _script() -> None:
    scripted.outage(25)
    scripted.llm.add_rule(match_contains("question 5"), raise_error(ServerError(503)))
    scripted.llm.add_rule(match_contains("question 6"), respond_with(b"cut {"))
    scripted.answer_all(b'{"text":"hello","usage":[3,2],"cached":2,"reasoning":1}')


def test_sums_equal_the_outputs_exactly(run: Any) -> None:
    _script()
    settings = config(retry_policy=RetryPolicy(3, 1, 4), breaker_threshold=10_000, journal="memory://sums")
    result = run([(f"k{n % 40}", n) for n in range(200)], _varied, settings)
    calls = kept_calls()
    found, told = counters(result), told_counts(calls)
    assert {"in_doubt", "retries", "failed_calls", "cached_tokens", "reasoning_tokens"} <= told.keys()
    assert {"dead_letters_ServerError", "dead_letters_ResponseDecodeError", "dead_letters_LookupError"} <= told.keys()
    assert {name: count for name, count in found.items() if name in told.keys() | COUNTERS.keys()} == told
    assert distributions(result) == told_values(calls)
    assert told["attempts"] == 25 + scripted.llm.call_count


def test_a_bundle_that_failed_is_not_counted() -> None:
    scripted.answer_all()
    pipeline = beam.Pipeline(options=options("BundleBasedDirectRunner"))
    pairs = pipeline | beam.Create([(f"k{n}", n) for n in range(20)])
    outputs = pairs | RunAgent(_failing_once, config(on_error="raise", journal="memory://failed"))
    scripted.keep_all(outputs)
    result = pipeline.run()
    result.wait_until_finish()
    told = told_counts(kept_calls())
    assert scripted.marks["agent failed"] == 2
    assert (told["activations_committed"], told["calls"], scripted.llm.call_count) == (20, 20, 20)
    assert told["recovered_calls"] > 0
    assert {name: count for name, count in counters(result).items() if name in COUNTERS} == told
    assert distributions(result) == told_values(kept_calls())


async def _failing_once(ctx: Any, event: Any) -> Any:
    result = await ctx.complete(f"greet {event}")
    if event == 19 and scripted.once("agent failed"):
        raise RuntimeError("the last one fails once")
    return result.text


def test_an_opened_circuit_is_counted(run: Any) -> None:
    scripted.llm.add_rule(match_any(), raise_error(ServerError(503)))
    settings = config(retry_policy=RetryPolicy(1, 0, 0), breaker_threshold=2, on_open="dead_letter")
    result = run([("k", n) for n in range(6)], scripted.greeter, settings)
    found = counters(result)
    assert found["breaker_opens"] == 1
    assert (found["dead_letters_ServerError"], found["dead_letters_CircuitOpenError"]) == (2, 4)


def test_a_model_handler_counts_the_same(runner: str) -> None:
    scripted.answer_all()
    with beam.Pipeline(options=options(runner)) as pipeline:
        _ = pipeline | beam.Create(["a", "b", "c"]) | RunInference(FacadeModelHandler(config()))
    found = counters(pipeline.result)
    assert (found["activations_committed"], found["input_tokens"]) == (3, 9)
    assert distributions(pipeline.result)["call_attempts"] == (3, 3, 1, 1)


def test_the_names_are_those_of_the_table(run: Any) -> None:
    scripted.answer_all()
    assert distributions(run([("k", 1)], scripted.greeter)).keys() == DISTRIBUTIONS.keys()
