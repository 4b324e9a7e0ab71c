"""A bundle that fails and is retried: paid once with a journal, and nothing of the failed one is committed."""

from __future__ import annotations

from functools import partial
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_agents.beam import RunAgent
from tests.beam import scripted
from tests.beam.conftest import config, options

RETRYING = "BundleBasedDirectRunner"


def _failing_once(settings: Any, agent: Any, *, official_api: bool = False) -> None:
    pipeline = beam.Pipeline(options=options(RETRYING))
    pairs = [(f"k{i}", i) for i in range(20)]
    outputs = pipeline | beam.Create(pairs) | RunAgent(agent, settings, official_api=official_api)
    scripted.keep_all(outputs)
    pipeline.run().wait_until_finish()


async def _failing_last(ctx: Any, event: Any) -> Any:
    result = await ctx.complete(f"greet {event}")
    if event == 19 and scripted.once("agent failed"):
        raise RuntimeError("the last one fails once")
    return event, ctx.seq, result.text


@pytest.mark.parametrize("official_api", [False, True])
def test_a_bundle_retried_under_on_error_raise_pays_nothing_twice(official_api: bool) -> None:
    scripted.answer_all()
    settings = config(on_error="raise", journal="memory://retry")
    _failing_once(settings, _failing_last, official_api=official_api)
    assert sorted(scripted.kept["main"]) == [(n, 0, "hello") for n in range(20)]
    assert scripted.llm.call_count == 20


def test_without_a_journal_the_retry_pays_again() -> None:
    scripted.answer_all()
    _failing_once(config(on_error="raise"), _failing_last)
    assert len(scripted.kept["main"]) == 20
    assert scripted.llm.call_count > 20


def test_recovered_answers_say_which_attempt_they_came_from() -> None:
    scripted.answer_all()
    _failing_once(config(on_error="raise", journal="memory://attempts"), _failing_last)
    calls = [event.attributes for event in scripted.kept["traces"] if event.attributes.get("beam_agents.call_id")]
    recovered = [found for found in calls if found.get("beam_agents.replay") == "journal"]
    assert recovered
    assert all(found["beam_agents.attempt_id"] == found["beam_agents.call_id"] + ":1" for found in calls)


async def _slow_or_failing(ctx: Any, event: Any) -> Any:
    if event == "fails" and scripted.once("failed"):
        raise RuntimeError("fails while the other is at work")
    result = await ctx.complete(f"slow {event}")
    return event, result.text


def test_the_retry_joins_a_call_that_is_still_in_flight() -> None:
    scripted.answer_all(latency_ms=150)
    pipeline = beam.Pipeline(options=options(RETRYING))
    pairs = [("a", "slow"), ("b", "fails")]
    settings = config(on_error="raise", journal="memory://join")
    scripted.keep_all(pipeline | beam.Create(pairs) | RunAgent(_slow_or_failing, settings))
    pipeline.run().wait_until_finish()
    assert sorted(scripted.kept["main"]) == [("fails", "hello"), ("slow", "hello")]
    assert scripted.llm.call_count == 2


async def _always_failing(ctx: Any, event: Any) -> None:
    raise ValueError("always")


def test_on_error_raise_fails_the_pipeline_with_key_position_and_cause(runner: str) -> None:
    pipeline = beam.Pipeline(options=options(runner))
    scripted.keep_all(pipeline | beam.Create([("k", 1)]) | RunAgent(_always_failing, config(on_error="raise")))
    with pytest.raises(Exception, match=r"b'k' seq 0 failed with ValueError: always"):
        pipeline.run().wait_until_finish()
    assert scripted.kept["errors"] == []


def test_answers_outlive_the_pipeline(runner: str) -> None:
    scripted.answer_all()
    for _ in range(2):
        pipeline = beam.Pipeline(options=options(runner))
        settings = config(journal="memory://again", namespace="job")
        scripted.keep_all(pipeline | beam.Create([("k", 1)]) | RunAgent(scripted.greeter, settings))
        pipeline.run().wait_until_finish()
    assert scripted.kept["main"] == [("k", 0, 1, "hello")] * 2
    assert scripted.llm.call_count == 1


async def _asking_its_number(ctx: Any, event: Any) -> Any:
    return ctx.seq, (await ctx.complete(f"what of {event}?")).text


@pytest.mark.parametrize(("sequence", "requests"), [(int, 9), (None, 15)])
def test_input_in_another_order_is_free_where_events_give_their_positions(sequence: Any, requests: int) -> None:
    scripted.answer_all()
    pairs = [(f"k{i % 3}", i) for i in range(9)]
    for again in (pairs, list(reversed(pairs))):
        pipeline = beam.Pipeline(options=options("FnApiRunner"))
        settings = config(journal="memory://order", namespace="job", sequence=sequence)
        scripted.keep_all(pipeline | beam.Create(again) | RunAgent(_asking_its_number, settings))
        pipeline.run().wait_until_finish()
    first, second = sorted(scripted.kept["main"][:9]), sorted(scripted.kept["main"][9:])
    assert first == second
    assert scripted.llm.call_count == requests


def test_a_bundle_that_fails_after_its_last_answer_is_free_when_run_again() -> None:
    scripted.answer_all()
    settings = config(journal="memory://last", namespace="job")
    pairs = [(f"k{i}", i) for i in range(20)]
    for fails in (True, False):
        pipeline = beam.Pipeline(options=options("FnApiRunner"))
        outputs = pipeline | beam.Create(pairs) | RunAgent(scripted.greeter, settings)
        outputs.main | beam.ParDo(scripted.FailOnceAtEnd()) | beam.Map(partial(scripted.keep, "main"))
        if fails:
            with pytest.raises(RuntimeError, match="last step"):
                pipeline.run()
            scripted.kept.clear()
        else:
            pipeline.run()
    assert sorted(scripted.kept["main"]) == [(f"k{i}", 0, i, "hello") for i in sorted(range(20), key=str)]
    assert scripted.llm.call_count == 20


def test_a_runner_that_runs_each_bundle_twice_pays_once() -> None:
    scripted.answer_all()
    twice = PipelineOptions(["--runner=FnApiRunner", "--direct_runner_bundle_repeat=1"])
    pipeline = beam.Pipeline(options=twice)
    pairs = [(f"k{i}", i) for i in range(20)]
    pipeline | beam.Create(pairs) | RunAgent(scripted.greeter, config(journal="memory://twice"))
    pipeline.run()
    assert scripted.llm.call_count == 20


def test_a_journal_that_cannot_be_opened_fails_the_pipeline_and_makes_no_dead_letters(run: Any) -> None:
    scripted.answer_all()
    with pytest.raises(Exception, match=r"journal\.db cannot be opened: the directory .* does not exist"):
        run([("a", 1), ("b", 2)], scripted.greeter, config(journal="sqlite:////nowhere/at/all/journal.db"))
    assert (scripted.llm.call_count, scripted.kept["errors"]) == (0, [])
