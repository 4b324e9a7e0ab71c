"""The work that pipelines and peers do in the same way: a client that waits, requests, a count of outputs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from beam_agents import AgentConfig, RunAgent
from beam_agents.beam.runners import local_options
from beam_agents.providers import OpenAIClient
from beam_agents.values import LlmRequest, LlmResponse
from benchmarks.timing import run_loop, seconds
from benchmarks.wire import WIRE

__all__ = [
    "EmptyStateful",
    "WaitingClient",
    "agent_pipeline",
    "ask",
    "bare",
    "config_for",
    "decode",
    "pairs_of",
    "run_counted",
    "text_of",
]

decode = OpenAIClient.decode


class WaitingClient:
    """A provider whose answer takes `delay_s` and costs nothing else.

    Each delay is an endpoint of its own: one that slows down while it is in use would be sent less.
    """

    provider_name = "waiting"

    def __init__(self, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s
        self.endpoint = f"https://{delay_s * 1000:.0f}-ms.example"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        return LlmResponse(WIRE)


async def ask(ctx: Any, event: str) -> int:
    """The agent of these benchmarks: one call."""
    return len((await ctx.complete(event)).text)


def text_of(number: int, size: int) -> str:
    """A prompt of `size` characters that no other number has."""
    head = f"Order {number}: "
    return head + ("The customer asks where the parcel is. " * (size // 39 + 1))[: max(0, size - len(head))]


def pairs_of(keys: int, events: int = 1, size: int = 100) -> list[tuple[str, str]]:
    """`events` prompts for each of `keys` keys."""
    return [(f"key-{n % keys}", text_of(n, size)) for n in range(keys * events)]


def config_for(delay_s: float = 0.0, **settings: Any) -> AgentConfig:
    """A configuration over a `WaitingClient`."""
    return AgentConfig(provider=partial(WaitingClient, delay_s), decode=decode, namespace="bench", **settings)


_held: list[Any] = []
_seen = [0]


def _take(_: Any) -> list[Any]:
    return _held


def _type_of(elements: Sequence[Any]) -> Any:
    if isinstance(elements[0], tuple):
        return tuple[tuple(map(type, elements[0]))]  # type: ignore[misc]
    return type(elements[0])


def _note(_: Any) -> None:
    _seen[0] += 1


def run_counted(build: Callable[[Any], Any], elements: Sequence[Any], options: PipelineOptions | None = None) -> float:
    """Seconds of a whole pipeline run: built, run, over. Raises when outputs are missing.

    The elements come from this process's memory: `beam.Create` would compress them all with bz2 first.
    """
    _seen[0] = 0
    _held[:] = elements
    options = options or local_options()
    began = time.perf_counter()
    with beam.Pipeline(options=options) as pipeline:
        outputs = build(
            pipeline | beam.Impulse() | "Elements" >> beam.FlatMap(_take).with_output_types(_type_of(elements))
        )
        _ = outputs | "Count" >> beam.Map(_note)
    took = time.perf_counter() - began
    if _seen[0] != len(elements):
        raise RuntimeError(f"{_seen[0]} outputs of {len(elements)} elements")
    return took


def agent_pipeline(pairs: Sequence[tuple[str, str]], config: AgentConfig, agent: Any = ask) -> float:
    """Seconds of a run of `RunAgent`."""
    return run_counted(lambda elements: (elements | "Agent" >> RunAgent(agent, config)).main, pairs)


_CELL = beam.DoFn.StateParam(ReadModifyWriteStateSpec("cell", beam.coders.VarIntCoder()))


class EmptyStateful(beam.DoFn):  # type: ignore[misc]
    """Reads and writes one small state for each element, after `work`: what any stateful step costs."""

    def __init__(self, work: Callable[[Any], Any] = len) -> None:
        self._work = work

    def process(self, element: Any, cell: Any = _CELL) -> Any:
        self._work(element[1])
        cell.write((cell.read() or 0) + 1)
        yield 1


def bare(texts: Sequence[str], delay_s: float, cap: int) -> float:
    """Seconds that the same calls take in plain asyncio: a semaphore, a gather, the answers decoded."""
    client, answers = WaitingClient(delay_s), []

    async def one(text: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            request = LlmRequest("m-1", [{"role": "user", "content": text}])
            answers.append(decode((await client.complete(request)).response))

    async def everything() -> None:
        slots = asyncio.Semaphore(cap)
        await asyncio.gather(*(one(text, slots) for text in texts))

    took = seconds(lambda: run_loop(everything()))
    if len(answers) != len(texts):
        raise RuntimeError(f"{len(answers)} answers of {len(texts)}")
    return took
