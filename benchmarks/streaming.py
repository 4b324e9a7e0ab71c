"""How long an event of a stream waits for its committed output: `commit="bundle"` beside `commit="timer"`, on Prism.

Calls take 0.2 s, one in fifty 5 s. Events come one after another at a steady rate; an output counts when it has
passed a shuffle, and so was committed. Run `PRISM=.parts/prism-2.77.0/prism python -m benchmarks.streaming`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import shutil
import time
from collections.abc import Sequence
from random import Random
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.utils.timestamp import Timestamp

from beam_agents import AgentConfig, RunAgent
from beam_agents.values import LlmRequest, LlmResponse
from benchmarks.prism import prism_running
from benchmarks.wire import WIRE
from benchmarks.work import decode

QUICK_S, SLOW_S, SLOW_ONE_IN = 0.2, 5.0, 50
LEAD_S = 4
_waited: list[float] = []


class Client:
    """Answers after 0.2 s; after 5 s what asks for it."""

    provider_name = "waiting"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        await asyncio.sleep(SLOW_S if request.messages[0]["content"] == "slow" else QUICK_S)
        return LlmResponse(WIRE)


async def agent(ctx: Any, event: tuple[int, float]) -> float:
    """One call; gives back when the event came."""
    number, came_at = event
    await ctx.complete("slow" if Random(number).random() < 1 / SLOW_ONE_IN else "quick", sample=number)
    return came_at


def measure(commit: str, rate: int, keys: int, seconds: int, options: PipelineOptions) -> list[float]:
    """For how long each event waited, sorted. Raises when one has no output."""
    _waited.clear()
    start, step_s = time.time() + LEAD_S, 1 / rate

    def event(tick: Any) -> tuple[str, tuple[int, float]]:
        number = round((float(tick) - start) / step_s)
        return f"key-{number % keys}", (number, start + number * step_s)

    config = AgentConfig(
        provider=Client, decode=decode, commit=commit, namespace=f"{commit} {rate} {keys} {start}", max_in_flight=1_000
    )
    with beam.Pipeline(options=options) as pipeline:
        ticks = pipeline | PeriodicImpulse(Timestamp(start), Timestamp(start + seconds), step_s)
        events = ticks | "Event" >> beam.Map(event).with_output_types(tuple[str, tuple[int, float]])
        answers = (events | "Agent" >> RunAgent(agent, config)).main
        _ = answers | "Commit" >> beam.Reshuffle() | "Note" >> beam.Map(_note)
    if len(_waited) < rate * seconds:
        raise RuntimeError(f"{len(_waited)} outputs of {rate * seconds} events")
    return sorted(_waited)


def _note(came_at: float) -> None:
    _waited.append(time.time() - came_at)


def row(commit: str, rate: int, keys: int, waited: Sequence[float]) -> str:
    """A line of the table."""
    shown = " | ".join(f"{waited[min(len(waited) - 1, int(len(waited) * share))]:.2f}" for share in (0.5, 0.9, 0.99))
    return f"| {rate} | {keys} | `{commit}` | {shown} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="for how long events come")
    parser.add_argument("--rates", type=int, nargs="+", default=[20, 100], help="events a second")
    parser.add_argument("--keys", type=int, nargs="+", default=[50, 500])
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    program = shutil.which(os.environ.get("PRISM") or "prism")
    if program is None:
        raise SystemExit("Prism is missing: `make prism` builds it, and PRISM says where it is")
    print("| events a second | keys | commit | p50 s | p90 s | p99 s |\n|---|---|---|---|---|---|")
    for rate in arguments.rates:
        for keys in arguments.keys:
            for commit in ("bundle", "timer"):
                with prism_running(program) as prism:
                    options = PipelineOptions([*prism, "--streaming"])
                    print(row(commit, rate, keys, measure(commit, rate, keys, arguments.seconds, options)), flush=True)


if __name__ == "__main__":
    importlib.import_module("benchmarks.streaming").main()  # so that pipelines find this module's list
