"""Streams whose watermark is played by hand: windows, times, and what comes late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.ml.inference.base import RunInference
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_agents import Complete, FacadeModelHandler, RunAgent
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
STARTS = {1: 0, 2: 0, 3: 0, 4: 0, 41: 40}
"""Where the window of each begins."""


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    scripted.reset()
    yield
    close_activation_loop()


async def _greet(ctx: Any, event: int) -> Any:
    answer = await ctx.complete(f"greet {event}")
    return ctx.entity_key.decode(), (event, ctx.seq, answer.text)


def _agent(events: Any, official_api: bool = False) -> Any:
    return (events | RunAgent(_greet, config(namespace="late"), official_api=official_api)).main


def _complete(events: Any) -> Any:
    return (events | Complete(lambda pair: f"greet {pair[1]}", config(), to_output=_pair)).main


def _inference(events: Any) -> Any:
    results = events | RunInference(FacadeModelHandler(config(), to_request=lambda pair: f"greet {pair[1]}"))
    return results | "As pairs" >> beam.Map(lambda found: _pair(found.example, found.inference))


def _pair(pair: tuple[str, int], result: Any) -> Any:
    """Without keys every element is the first of its own."""
    return pair[0], (pair[1], 0, result.text)


TRANSFORMS = {"RunAgent": _agent, "Complete": _complete, "model handler": _inference}


def _stream() -> Any:
    """Two events, then one when their window is over but kept, then one when it is gone, then one of another."""
    stream = test_stream.TestStream().advance_watermark_to(0)
    for elements, watermark in ((ON_TIME, 10), ([LATE], 40), ([TOO_LATE, NEXT], 50)):
        stream = stream.add_elements([TimestampedValue(one, one[1]) for one in elements])
        stream = stream.advance_watermark_to(watermark)
    return stream.advance_watermark_to_infinity()


def _noted(value: Any, name: str, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam) -> None:
    scripted.keep(name, (value, round(float(at), 2), float(window.start)))


def _play(transform: Callable[[Any], Any], arguments: list[str], *limit: int) -> None:
    scripted.answer_all()
    pipeline = beam.Pipeline(options=PipelineOptions([*arguments, "--streaming"]))
    windows = beam.WindowInto(
        FixedWindows(10),
        trigger=AfterWatermark(late=AfterCount(1)),
        accumulation_mode=AccumulationMode.DISCARDING,
        allowed_lateness=20,
    )
    answered = transform(pipeline | _stream() | windows.with_output_types(tuple[str, int]))
    answered | "note answers" >> beam.Map(_noted, "answers")
    grouped = answered | beam.WithKeys(lambda pair: pair[0]) | beam.GroupByKey()
    grouped | "note panes" >> beam.MapTuple(
        lambda key, pairs: scripted.keep("panes", (key, sorted(event for _, (event, _, _) in pairs)))
    )
    result = pipeline.run()
    result.wait_until_finish(*limit)
    assert result.state == "DONE"


def _has_its_place(transform: str, late: int = 0) -> None:
    """Every event is answered in its window and at its time; grouping drops the one whose window is gone.

    `late` is the position of the late event. `RunInference` makes batches of a window, at its last moment.
    """
    found = {value[1][0]: (value[1][1], at, start) for value, at, start in scripted.kept["answers"]}
    places = {n: (n if transform != "model handler" else start + 10, start) for n, start in STARTS.items()}
    assert found.pop(4)[1:] == places.pop(4)
    assert found == {n: (late if n == 3 else 0, *place) for n, place in places.items()}
    panes = sorted(scripted.kept["panes"])
    assert panes == [("a", [1]), ("a", [3]), ("a", [41]), ("b", [2])]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_bundle_based_runner(transform: str) -> None:
    _play(TRANSFORMS[transform], ["--runner=BundleBasedDirectRunner"])
    _has_its_place(transform, late=transform == "RunAgent")


def test_bundle_based_runner_by_the_documented_interface() -> None:
    _play(partial(_agent, official_api=True), ["--runner=BundleBasedDirectRunner"])
    _has_its_place("RunAgent", late=1)


@pytest.mark.services
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_prism(transform: str, begin: Callable[[Shape], Round]) -> None:
    """Prism forgets a window's state when the window ends, whatever lateness is allowed."""
    _play(TRANSFORMS[transform], [*prism(begin(Shape())), *PRISM_ARGUMENTS], LIMIT_MS)
    _has_its_place(transform)
