"""The steps of the suite's pipeline. Importable, so that workers in other processes find them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from beam_agents import AgentConfig, AgentContext
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.beam.claims import claims
from beam_agents.exporters.jsonl import event_to_json
from beam_agents.model import RetryPolicy
from beam_agents.proto import TraceEvent
from beam_agents.providers import OpenAIClient
from tests.runners.shape import Shape

__all__ = ["Answer", "Endpoint", "ToEvent", "Write", "append", "config", "note_group"]


class Endpoint:
    """Makes clients of the suite's endpoint that name their calls to it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self) -> OpenAIClient:
        return OpenAIClient(base_url=self._url, api_key="none", model_id="suite-1", idempotency_key=True)


def config(url: str, journal: str, shape: Shape) -> AgentConfig:
    """The same for every run of one round, so that a second run goes on where the first ended."""
    return AgentConfig(
        provider=Endpoint(url),
        decode=OpenAIClient.decode,
        journal=journal,
        namespace="runners",
        max_in_flight=shape.max_in_flight,
        activation_timeout_s=60,
        retry_policy=RetryPolicy(6, 20, 200),
        breaker_threshold=1_000,
        on_error="raise" if shape.fails_once else "dead_letter",
        commit="timer" if shape.timed else "bundle",
    )


class Answer:
    """The agent: some calls one after another; counts in its key's state; refuses some events."""

    def __init__(self, shape: Shape, folder: str) -> None:
        self._shape = shape
        self._folder = folder

    async def __call__(self, ctx: AgentContext, n: int) -> Any:
        shape = self._shape
        _note_open_bundles(self._folder)
        for call in range(shape.calls):
            await ctx.complete(f"event {n} call {call}")
        if shape.is_refused(n):
            raise ValueError("refused on purpose")
        if shape.fails_once and n == shape.total - 1 and _is_first(Path(self._folder).parent / "failed"):
            raise RuntimeError("the last event fails once")
        count = ctx.state = (ctx.state or 0) + 1
        return {"key": ctx.entity_key.decode(), "seq": ctx.seq, "n": n, "count": count}


class ToEvent(beam.DoFn):
    """Number → `(key, number)` at its time."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def process(self, n: int) -> Iterator[Any]:
        yield TimestampedValue((f"key-{n % self._shape.keys}", n), Timestamp(micros=self._shape.micros_of(n)))


class Write(beam.DoFn):
    """Appends each result, with its time and window, to a file of this process."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, value: Any, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam) -> None:
        placed = {"at": at.micros, "window": None if isinstance(window, GlobalWindow) else window.start.micros}
        if isinstance(value, TraceEvent):
            line = {"trace": event_to_json(value)} | placed
        elif isinstance(value, DeadLetter):
            line = {"error": value.to_json()} | placed
        else:
            line = {"main": value | placed}
        append(self._folder, "out", line)


def note_group(folder: str, key: str, numbers: Iterable[int]) -> None:
    """What came on time to a window behind the agent."""
    append(folder, "groups", {"key": key, "numbers": list(numbers)})


_peak = 0


def _note_open_bundles(folder: str) -> None:
    """Called on the loop's thread alone."""
    global _peak
    if claims.open_bundles > _peak:
        _peak = claims.open_bundles
        append(folder, "bundles", {"open": _peak})


def _is_first(marker: Path) -> bool:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def append(folder: str, name: str, line: Any) -> None:
    """One write for a line, so that threads of a process do not mix theirs."""
    path = Path(folder) / f"{name}-{os.getpid()}.jsonl"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)
