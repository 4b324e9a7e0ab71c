"""Keys that are forgotten some time after their last event."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue

from beam_agents.beam import RunAgent
from tests.beam import scripted
from tests.beam.conftest import config, options


async def _remember(ctx: Any, event: Any) -> Any:
    ctx.state = [*(ctx.state or []), event]
    return ctx.seq, ctx.state


def _run(ttl_s: float | None, *steps: tuple[int, int]) -> list[Any]:
    """What comes of events at the second times, when the watermark is at the first."""
    stream = test_stream.TestStream()
    for watermark, at in steps or ((0, 0), (20, 20), (130, 130)):
        stream = stream.advance_watermark_to(watermark).add_elements([TimestampedValue(("k", at), at)])
    settings = options("BundleBasedDirectRunner")
    settings.view_as(StandardOptions).streaming = True
    pipeline = beam.Pipeline(options=settings)
    events = (
        pipeline
        | stream.advance_watermark_to_infinity()
        | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
    )
    scripted.keep_all(events | RunAgent(_remember, config(state_ttl_s=ttl_s)))
    pipeline.run().wait_until_finish()
    return scripted.kept["main"]


def test_a_key_is_forgotten_when_the_watermark_is_past_its_time() -> None:
    assert _run(60) == [(0, [0]), (1, [0, 20]), (0, [130])]


def test_without_a_time_a_key_is_kept() -> None:
    assert _run(None) == [(0, [0]), (1, [0, 20]), (2, [0, 20, 130])]


def test_an_older_event_does_not_shorten_the_time_of_its_key() -> None:
    kept = _run(60, (0, 100), (101, 10), (110, 120), (170, 175), (300, 300))
    assert kept == [(0, [100]), (1, [100, 10]), (2, [100, 10, 120]), (3, [100, 10, 120, 175]), (0, [300])]


def test_a_bounded_pipeline_is_not_disturbed() -> None:
    pipeline = beam.Pipeline(options=options("FnApiRunner"))
    pairs = [("k", 1), ("k", 2)]
    scripted.keep_all(pipeline | beam.Create(pairs) | RunAgent(_remember, config(state_ttl_s=60)))
    pipeline.run()
    assert scripted.kept["main"] == [(0, [1]), (1, [1, 2])]


def test_it_is_refused_where_it_is_not_available() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    with pytest.raises(ValueError, match="state_ttl_s"):
        pipeline | beam.Create([("k", 1)]) | RunAgent(_remember, config(state_ttl_s=60), official_api=True)
