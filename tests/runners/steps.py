"""The steps of the suite's pipeline. Importable, so that workers in other processes find them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from beam_agents import AgentConfig, AgentContext
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.exporters.jsonl import event_to_json
from beam_agents.model import RetryPolicy
from beam_agents.proto import TraceEvent
from beam_agents.providers import OpenAIClient

__all__ = ["CountOpenBundles", "Endpoint", "ToEvent", "Write", "answer", "config", "is_refused"]

REFUSED_ONE_IN = 17


class Endpoint:
    """Makes clients of the suite's endpoint that name their calls to it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self) -> OpenAIClient:
        return OpenAIClient(base_url=self._url, api_key="none", model_id="suite-1", idempotency_key=True)


def config(url: str, journal: str, *, max_in_flight: int, on_error: Any = "dead_letter") -> AgentConfig:
    """The same for every run of one round, so that a second run goes on where the first ended."""
    return AgentConfig(
        provider=Endpoint(url),
        decode=OpenAIClient.decode,
        journal=journal,
        namespace="runners",
        max_in_flight=max_in_flight,
        activation_timeout_s=60,
        retry_policy=RetryPolicy(6, 20, 200),
        breaker_threshold=1_000,
        on_error=on_error,
    )


def is_refused(n: int) -> bool:
    """Whether the agent refuses event `n`, after it has paid for its calls."""
    return n % REFUSED_ONE_IN == REFUSED_ONE_IN - 1


async def answer(ctx: AgentContext, event: Any) -> Any:
    """Some calls one after another; counts in its key's state; refuses some events."""
    for call in range(event["calls"]):
        await ctx.complete(f"event {event['n']} call {call}")
    if is_refused(event["n"]):
        raise ValueError("refused on purpose")
    count = ctx.state = (ctx.state or 0) + 1
    return {"key": ctx.entity_key.decode(), "seq": ctx.seq, "n": event["n"], "count": count}


class ToEvent(beam.DoFn):
    """Number → `(key, event)` at its time."""

    def __init__(self, keys: int, calls: int, start_s: float, step_s: float) -> None:
        self._keys = keys
        self._calls = calls
        self._start_s = start_s
        self._step_s = step_s

    def process(self, n: int) -> Iterator[Any]:
        event = {"n": n, "calls": self._calls}
        at = Timestamp.of(self._start_s) + n * self._step_s
        yield TimestampedValue((f"key-{n % self._keys}", event), at)


class Write(beam.DoFn):
    """Appends each result, with its time and window, to a file of this process."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, value: Any, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam) -> None:
        start = getattr(window, "start", None)
        placed = {"at": at.micros / 1e6, "window": None if start is None else start.micros / 1e6}
        if isinstance(value, TraceEvent):
            line = {"trace": event_to_json(value)} | placed
        elif isinstance(value, DeadLetter):
            line = {"error": value.to_json()} | placed
        else:
            line = {"main": value | placed}
        append(self._folder, "out", line)


class CountOpenBundles(beam.DoFn):
    """Passes everything on; notes how many bundles of its stage are open at once in this process."""

    _lock = threading.Lock()
    _open = 0
    _peak = 0

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def start_bundle(self) -> None:
        self._count(1)

    def process(self, value: Any) -> Iterator[Any]:
        yield value

    def finish_bundle(self) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        here = CountOpenBundles
        with here._lock:
            here._open += change
            if here._open > here._peak:
                here._peak = here._open
                append(self._folder, "bundles", {"open": here._peak})


def append(folder: str, name: str, line: Any) -> None:
    """One write for a line, so that threads of a process do not mix theirs."""
    path = Path(folder) / f"{name}-{os.getpid()}.jsonl"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)
