"""Streams whose watermark is played by hand: windows, times, and what comes late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_agents import RunAgent
from beam_agents.activation import close_activation_loop
from beam_agents.beam.runners import PRISM_ARGUMENTS
from tests.beam import scripted
from tests.beam.conftest import config
from tests.runners.round import Round
from tests.runners.servers import prism
from tests.runners.shape import Shape

LIMIT_MS = 60_000
ON_TIME = [("a", 1), ("b", 2)]
LATE = ("a", 3)
TOO_LATE = ("a", 4)
NEXT = ("a", 41)


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    scripted.reset()
    yield
    close_activation_loop()


async def _placed(ctx: Any, event: int) -> Any:
    answer = await ctx.complete(f"greet {event}")
    return ctx.entity_key.decode(), (event, ctx.seq, answer.text)


def _stream() -> Any:
    """Two events, then one when their window is over but kept, then one when it is gone, then one of another."""
    stream = test_stream.TestStream().advance_watermark_to(0)
    for elements, watermark in ((ON_TIME, 10), ([LATE], 40), ([TOO_LATE, NEXT], 50)):
        stream = stream.add_elements([TimestampedValue(one, one[1]) for one in elements])
        stream = stream.advance_watermark_to(watermark)
    return stream.advance_watermark_to_infinity()


def _noted(value: Any, name: str, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam) -> None:
    scripted.keep(name, (value, float(at), float(window.start)))


def _play(arguments: list[str], *limit: int, official_api: bool = False) -> None:
    scripted.answer_all()
    pipeline = beam.Pipeline(options=PipelineOptions([*arguments, "--streaming"]))
    windows = beam.WindowInto(
        FixedWindows(10),
        trigger=AfterWatermark(late=AfterCount(1)),
        accumulation_mode=AccumulationMode.DISCARDING,
        allowed_lateness=20,
    )
    events = pipeline | _stream() | windows.with_output_types(tuple[str, int])
    answered = events | RunAgent(_placed, config(namespace="late"), official_api=official_api)
    answered.main | "note answers" >> beam.Map(_noted, "answers")
    answered.errors | "note errors" >> beam.Map(partial(scripted.keep, "errors"))
    grouped = answered.main | beam.WithKeys(lambda pair: pair[0]) | beam.GroupByKey()
    grouped | "note panes" >> beam.MapTuple(
        lambda key, pairs: scripted.keep("panes", (key, sorted(event for _, (event, _, _) in pairs)))
    )
    result = pipeline.run()
    result.wait_until_finish(*limit)
    assert result.state == "DONE"


def _has_its_place(late_position: int) -> None:
    """Every event is answered in its window and at its time; grouping drops the one whose window is gone."""
    found = {value[1][0]: (value[1][1], at, start) for value, at, start in scripted.kept["answers"]}
    assert found.pop(4)[1:] == (4, 0)
    assert found == {1: (0, 1, 0), 2: (0, 2, 0), 3: (late_position, 3, 0), 41: (0, 41, 40)}
    assert scripted.kept["errors"] == []
    panes = sorted(scripted.kept["panes"])
    assert panes == [("a", [1]), ("a", [3]), ("a", [41]), ("b", [2])]


@pytest.mark.parametrize("official_api", [False, True], ids=["", "documented interface"])
def test_bundle_based_runner(official_api: bool) -> None:
    _play(["--runner=BundleBasedDirectRunner"], official_api=official_api)
    _has_its_place(late_position=1)


@pytest.mark.services
def test_prism(begin: Callable[[Shape], Round]) -> None:
    """Prism forgets a window's state when the window ends, whatever lateness is allowed."""
    server = prism(begin(Shape()))
    _play([*server, *PRISM_ARGUMENTS], LIMIT_MS)
    _has_its_place(late_position=0)
