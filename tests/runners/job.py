"""The suite's pipeline: `python -m tests.runners.job ARGUMENTS -- BEAM OPTIONS`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

from beam_agents.beam import disable_state_cache
from tests.runners.shape import Shape
from tests.runners.source import Paced
from tests.runners.steps import AtItsTime, NoteBundles, Write, append, note_group
from tests.runners.transforms import TRANSFORMS, config

__all__ = ["main"]

_LEAD_S = 5


def _arguments(given: list[str]) -> tuple[argparse.Namespace, list[str]]:
    at = given.index("--")
    parser = argparse.ArgumentParser()
    for name in ("out", "url", "journal", "shape"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--official-api", action="store_true")
    return parser.parse_args(given[:at]), given[at + 1 :]


def _numbers(pipeline: Any, shape: Shape) -> Any:
    """0, 1, 2, …: all at once, or one each `step_ms` from an unbounded source."""
    if not shape.paced:
        return pipeline | "Numbers" >> beam.Create(range(shape.total), reshuffle=False)
    shapes = pipeline | beam.Create([shape], reshuffle=False)
    numbers = shapes | "Numbers" >> beam.ParDo(Paced()).with_output_types(int)
    # Without state, a step would share the source's one bundle.
    return numbers if shape.transform == "RunAgent" else numbers | "Own bundles" >> beam.Reshuffle()


def main(given: list[str]) -> None:
    """Run the pipeline to its end. Raises what the runner raises when it fails."""
    options, beam_options = _arguments(given)
    disable_state_cache()
    shape = Shape(**json.loads(options.shape))
    if shape.paced:
        shape = replace(shape, start_s=int(time.time()) + _LEAD_S)
        append(options.out, "start", {"start_s": shape.start_s})
    settings = config(options.url, options.journal, shape)
    pipeline = beam.Pipeline(options=PipelineOptions(beam_options))
    windows = beam.WindowInto(FixedWindows(shape.window_s))
    events = _numbers(pipeline, shape) | "Times" >> beam.ParDo(AtItsTime(shape)).with_output_types(int)
    placed = events if shape.timed else events | "Windows" >> windows
    results = TRANSFORMS[shape.transform](placed, shape, settings, options.out, options.official_api)
    if shape.timed:
        by_key = beam.Map(lambda one: (one["key"], one["n"])).with_output_types(tuple[str, int])
        groups = results["main"] | "By key" >> by_key | "Late windows" >> windows | "Group" >> beam.GroupByKey()
        _ = groups | "Note groups" >> beam.MapTuple(partial(note_group, options.out))
    noted = results["main"] | "Note bundles" >> beam.ParDo(NoteBundles(options.out))
    for name, collection in {**results, "main": noted}.items():
        committed = collection | f"Commit {name}" >> beam.Reshuffle()
        _ = committed | f"Write {name}" >> beam.ParDo(Write(options.out))
    pipeline.run().wait_until_finish()


if __name__ == "__main__":
    main(sys.argv[1:])
