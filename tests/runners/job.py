"""The suite's pipeline: `python -m tests.runners.job ARGUMENTS -- BEAM OPTIONS`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from beam_agents import RunAgent
from beam_agents.beam import disable_state_cache
from tests.runners import steps

__all__ = ["main"]


def _arguments(given: list[str]) -> tuple[argparse.Namespace, list[str]]:
    at = given.index("--")
    parser = argparse.ArgumentParser()
    for name in ("out", "url", "journal"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("keys", "events", "calls", "max-in-flight"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("start-s", "step-s", "window-s"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--paced", action="store_true")
    parser.add_argument("--official-api", action="store_true")
    return parser.parse_args(given[:at]), given[at + 1 :]


def _numbers(pipeline: Any, options: argparse.Namespace) -> Any:
    """0, 1, 2, …: all at once, or one each `step_s` seconds from an unbounded source."""
    total = options.keys * options.events
    if not options.paced:
        return pipeline | "Numbers" >> beam.Create(range(total), reshuffle=False)
    start, step_s = Timestamp.of(options.start_s), options.step_s
    ticks = pipeline | "Ticks" >> PeriodicImpulse(start, start + total * step_s, step_s)
    number = beam.Map(lambda tick, at=beam.DoFn.TimestampParam: round((at.micros - start.micros) / 1e6 / step_s))
    return ticks | "Number" >> number.with_output_types(int)


def main(given: list[str]) -> None:
    """Run the pipeline to its end. Raises what the runner raises when it fails."""
    options, beam_options = _arguments(given)
    disable_state_cache()
    settings = steps.config(options.url, options.journal, max_in_flight=options.max_in_flight)
    to_event = steps.ToEvent(options.keys, options.calls, options.start_s, options.step_s)
    # Functions of `__main__` are pickled by value with what is around them.
    pipeline = beam.Pipeline(options=PipelineOptions(beam_options))
    results = (
        _numbers(pipeline, options)
        | "Events" >> beam.ParDo(to_event).with_output_types(tuple[str, dict[str, int]])
        | "Windows" >> beam.WindowInto(FixedWindows(options.window_s))
        | "Agent" >> RunAgent(steps.answer, settings, official_api=options.official_api)
    )
    committed = {
        "outputs": results.main | "Bundles" >> beam.ParDo(steps.CountOpenBundles(options.out)),
        "traces": results.traces,
        "errors": results.errors,
    }
    for name, collection in committed.items():
        sent = collection | f"Commit {name}" >> beam.Reshuffle()
        _ = sent | f"Write {name}" >> beam.ParDo(steps.Write(options.out))
    pipeline.run().wait_until_finish()


if __name__ == "__main__":
    main(sys.argv[1:])
