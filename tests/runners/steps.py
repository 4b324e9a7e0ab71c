"""The steps of the suite's pipeline. Importable, so that workers in other processes find them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from beam_agents import DeadLetter
from beam_agents.exporters.jsonl import event_to_json
from beam_agents.proto import TraceEvent
from tests.runners.shape import Shape

__all__ = ["AtItsTime", "NoteBundles", "Write", "append", "note_group"]


class AtItsTime(beam.DoFn):
    """Puts a number at its time."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def process(self, n: int) -> Iterator[Any]:
        yield TimestampedValue(n, Timestamp(micros=self._shape.micros_of(n)))


class NoteBundles(beam.DoFn):
    """Directly behind a step: notes how many of its bundles this process has open at once, at most."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def start_bundle(self) -> None:
        if _open_bundles.begin():
            append(self._folder, "bundles", {"open": _open_bundles.peak})

    def process(self, value: Any) -> Iterator[Any]:
        yield value

    def finish_bundle(self) -> None:
        _open_bundles.end()


class _OpenBundles:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.peak = 0

    def begin(self) -> bool:
        """Whether there were never as many."""
        with self._lock:
            self._now += 1
            is_new, self.peak = self._now > self.peak, max(self._now, self.peak)
            return is_new

    def end(self) -> None:
        with self._lock:
            self._now -= 1


_open_bundles = _OpenBundles()


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


def append(folder: str, name: str, line: Any) -> None:
    """One write for a line, so that threads of a process do not mix theirs."""
    path = Path(folder) / f"{name}-{os.getpid()}.jsonl"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)
