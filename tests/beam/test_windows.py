"""Windows and timestamps of events are those of their outputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue

from beam_agents.beam import RunAgent
from tests.beam import scripted
from tests.beam.conftest import config, options


def _stamped(value: Any, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam) -> Any:
    return scripted.keep("stamped", (value, float(timestamp), float(window.start), float(window.end)))


async def _positions(ctx: Any, event: Any) -> Any:
    return event, ctx.seq


def _run(way: tuple[str, bool], windows: Any, agent: Any = _positions) -> list[Any]:
    runner, official_api = way
    pipeline = beam.Pipeline(options=options(runner))
    events = [("k", at) for at in (1, 4, 12, 13)]
    outputs = (
        pipeline
        | beam.Create(events)
        | beam.Map(lambda pair: TimestampedValue(pair, pair[1])).with_output_types(tuple[str, int])
        | beam.WindowInto(windows)
        | RunAgent(agent, config(namespace="w"), official_api=official_api)
    )
    outputs.main | beam.Map(_stamped)
    outputs.errors | "errors" >> beam.Map(_stamped)
    outputs.traces | "traces" >> beam.Map(partial(scripted.keep, "traces"))
    pipeline.run().wait_until_finish()
    return sorted(scripted.kept["stamped"], key=repr)


def test_fixed_windows_and_timestamps_are_kept_and_seq_starts_in_each(way: tuple[str, bool]) -> None:
    found = _run(way, FixedWindows(10))
    assert found == [((1, 0), 1, 0, 10), ((12, 0), 12, 10, 20), ((13, 1), 13, 10, 20), ((4, 1), 4, 0, 10)]


def test_each_sliding_window_has_its_own_state(way: tuple[str, bool]) -> None:
    found = _run(way, SlidingWindows(10, 5))
    assert sorted((at, start) for (_, _), at, start, _ in found) == [
        (1, -5), (1, 0), (4, -5), (4, 0), (12, 5), (12, 10), (13, 5), (13, 10)
    ]  # fmt: skip
    assert sorted(seq for (_, seq), *_ in found) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_the_window_is_part_of_the_trace_id(way: tuple[str, bool]) -> None:
    _run(way, FixedWindows(10))
    assert len({event.trace_id for event in scripted.kept["traces"]}) == 4


async def _failing(ctx: Any, event: Any) -> None:
    raise ValueError(event)


def test_dead_letters_keep_window_and_timestamp_and_name_the_window(way: tuple[str, bool]) -> None:
    found = _run(way, FixedWindows(10), _failing)
    assert sorted((at, start) for _, at, start, _ in found) == [(1, 0), (4, 0), (12, 10), (13, 10)]
    assert {letter.scope for letter, *_ in found} == {"w@0-10000000", "w@10000000-20000000"}


def test_session_windows_are_not_merged_by_a_stateful_step_and_still_answered(way: tuple[str, bool]) -> None:
    found = _run(way, Sessions(5))
    assert sorted(event for (event, _), *_ in found) == [1, 4, 12, 13]
