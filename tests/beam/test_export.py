"""Trace events leave a pipeline for a collector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest

from beam_agents.beam import ExportTraces, RunAgent, close_exporters
from tests.beam import scripted
from tests.beam.conftest import config, options
from tests.exporters.collector import Collector

PAIRS = [(f"key-{number}", "hello") for number in range(5)]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_exporters()


async def agent(ctx: Any, event: str) -> str | None:
    return (await ctx.complete(event)).text


def run(runner: str, uri: str) -> dict[str, int]:
    pipeline = beam.Pipeline(options=options(runner))
    outputs = pipeline | beam.Create(PAIRS) | RunAgent(agent, config())
    scripted.keep_all(outputs)
    outputs.traces | ExportTraces(uri)
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query()["counters"]
    return {one.key.metric.name: one.result for one in counters if one.key.metric.name.startswith("traces_")}


def test_every_committed_event_reaches_the_collector_once(runner: str) -> None:
    scripted.answer_all()
    with Collector() as collector:
        counted = run(runner, collector.url)
        close_exporters()
    sent = sorted((span.trace_id, span.span_id, span.parent_span_id) for span in collector.spans)
    traced = scripted.kept["traces"]
    assert sent == sorted((event.trace_id, event.span_id, event.parent_span_id) for event in traced)
    assert len(sent) == 2 * len(PAIRS)
    assert {key: count for key, count in counted.items() if count} == {"traces_exported": 2 * len(PAIRS)}


def test_a_collector_that_refuses_costs_events_and_never_the_pipeline(runner: str) -> None:
    scripted.answer_all()
    with Collector(status=400) as collector:
        counted = run(runner, collector.url)
    assert {key: count for key, count in counted.items() if count} == {"traces_dropped": 2 * len(PAIRS)}
    assert len(scripted.kept["main"]) == len(PAIRS)


def test_a_bundle_that_fails_sends_nothing_and_the_next_run_sends_once() -> None:
    scripted.answer_all()
    with Collector() as collector:
        for fails in (True, False):
            pipeline = beam.Pipeline(options=options("FnApiRunner"))
            outputs = pipeline | beam.Create(PAIRS) | RunAgent(agent, config(journal="memory://export"))
            outputs.main | beam.ParDo(scripted.FailOnceAtEnd())
            outputs.traces | ExportTraces(collector.url)
            if fails:
                with pytest.raises(RuntimeError, match="last step"):
                    pipeline.run()
                close_exporters()
                assert collector.spans == []
            else:
                pipeline.run()
        close_exporters()
    ids = [span.span_id for span in collector.spans]
    assert len(ids) == len(set(ids)) == 2 * len(PAIRS)


def test_each_call_is_a_child_of_its_activation(runner: str) -> None:
    scripted.answer_all()
    with Collector() as collector:
        run(runner, collector.url)
        close_exporters()
    roots = {span.span_id for span in collector.spans if span.name.startswith("invoke_agent")}
    calls = [span for span in collector.spans if span.name.startswith("chat")]
    assert {span.parent_span_id for span in calls} == roots
    assert len(calls) == len(PAIRS)


@pytest.mark.parametrize("uri", ["traces.jsonl", "kafka://user:secret@host"])
def test_an_unknown_exporter_is_told_before_the_pipeline_runs_and_without_its_password(uri: str) -> None:
    with pytest.raises(ValueError, match="must be one of") as caught:
        ExportTraces(uri)
    assert "secret" not in str(caught.value)
