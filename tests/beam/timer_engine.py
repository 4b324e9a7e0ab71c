"""A stand-in for a runner that keeps REAL_TIME timers: state, timers, holds and watermark of one stateful step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

__all__ = ["Emitted", "Engine"]

_ROUNDS = 30_000
_NAP_S = 0.002


@dataclass(frozen=True)
class Emitted:
    """An element that left the step, and whether a downstream step with no lateness would drop it."""

    tag: str
    value: Any
    at: float
    late: bool


@dataclass(frozen=True)
class _Timer:
    fires_at: Timestamp
    hold: Timestamp


@dataclass
class Engine:
    """Calls a DoFn as runners do: in bundles, whose state, timers and outputs are committed together or not at all."""

    dofn: Any
    cells: dict[bytes, bytes] = field(default_factory=dict)
    timers: dict[tuple[str, bytes, str], _Timer] = field(default_factory=dict)
    input_watermark: Timestamp = MIN_TIMESTAMP
    output_watermark: Timestamp = MIN_TIMESTAMP
    emitted: list[Emitted] = field(default_factory=list)

    def elements(self, *placed: tuple[bytes, Any, float], fail: bool = False) -> None:
        """A bundle of `(key, event, time)`."""

        def work(bundle: _Bundle) -> Iterator[Any]:
            for key, event, at in placed:
                yield from bundle.process(key, event, Timestamp(at))

        self._bundle(work, fail)

    def left_open(self, *placed: tuple[bytes, Any, float]) -> None:
        """A bundle of `(key, event, time)` that has not ended."""
        bundle = _Bundle(self.dofn, dict(self.cells), dict(self.timers))
        self.dofn.start_bundle()
        for key, event, at in placed:
            list(bundle.process(key, event, Timestamp(at)))

    def look(self, *keys: bytes, fail: bool = False) -> list[Any]:
        """A bundle with the poll timers of these keys, or of all that have one; what it gave on the main output."""
        due = [name for name in self.timers if name[0] == "poll" and (not keys or name[1] in keys)]

        def work(bundle: _Bundle) -> Iterator[Any]:
            for name in due:
                del bundle.timers[name]
            for _, key, _ in due:
                yield from bundle.look(key)

        return self._bundle(work, fail)

    def settle(self) -> None:
        """Look until no key waits any more."""
        for _ in range(_ROUNDS):
            self.look()
            if not any(family == "poll" for family, _, _ in self.timers):
                return
            threading.Event().wait(_NAP_S)
        raise AssertionError("keys still wait")

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for something that happens on another thread."""
        for _ in range(_ROUNDS):
            if reached():
                return
            threading.Event().wait(_NAP_S)
        raise AssertionError("it never happened")

    def main(self) -> list[Any]:
        """What came out on the main output, in order."""
        return [one.value for one in self.emitted if one.tag == "main"]

    def holds(self) -> list[float]:
        """The times that the step keeps the watermark from."""
        return sorted(float(timer.hold) for (family, _, _), timer in self.timers.items() if family == "hold")

    def _bundle(self, work: Callable[[_Bundle], Iterable[Any]], fail: bool) -> list[Any]:
        bundle = _Bundle(self.dofn, dict(self.cells), dict(self.timers))
        self.dofn.start_bundle()
        emitted = [self._emitted(output) for output in work(bundle)]
        if not fail:
            self.dofn.finish_bundle()
            self.cells, self.timers = bundle.cells, bundle.timers
            self.emitted += emitted
            self._release()
        return [one.value for one in emitted if one.tag == "main"]

    def _emitted(self, output: Any) -> Emitted:
        tag, placed = (output.tag, output.value) if isinstance(output, TaggedOutput) else ("main", output)
        return Emitted(tag, placed.value, float(placed.timestamp), placed.timestamp < self.output_watermark)

    def _release(self) -> None:
        """Fire the holds that were let go, and move the watermark as far as the others let it."""
        due = [name for name, timer in self.timers.items() if name[0] == "hold" and timer.fires_at <= _now()]
        if due:
            self.dofn.start_bundle()
            for name in due:
                del self.timers[name]
                self.dofn.let_go(name[1], _Cell(_Bundle(self.dofn, self.cells, self.timers), name[1]))
            self.dofn.finish_bundle()
        holds = [timer.hold for timer in self.timers.values()]
        self.output_watermark = max(self.output_watermark, min([self.input_watermark, *holds]))


def _now() -> Timestamp:
    return Timestamp.now()


@dataclass
class _Bundle:
    dofn: Any
    cells: dict[bytes, bytes]
    timers: dict[tuple[str, bytes, str], _Timer]

    def process(self, key: bytes, event: Any, at: Timestamp) -> Iterator[Any]:
        return self.dofn.process((key, event), _Cell(self, key), at, *self._timers(key, at))

    def look(self, key: bytes) -> Iterator[Any]:
        # A timer that is set by a timer's callback holds the watermark nowhere that matters.
        return self.dofn.look(key, _Cell(self, key), *self._timers(key, MAX_TIMESTAMP))

    def _timers(self, key: bytes, hold: Timestamp) -> tuple[_TimerHandle, _TimerHandle]:
        return _TimerHandle(self, "poll", key, hold), _TimerHandle(self, "hold", key, hold)


@dataclass
class _Cell:
    bundle: _Bundle
    key: bytes

    def read(self) -> bytes | None:
        return self.bundle.cells.get(self.key)

    def write(self, value: bytes) -> None:
        self.bundle.cells[self.key] = value


@dataclass
class _TimerHandle:
    bundle: _Bundle
    family: str
    key: bytes
    hold: Timestamp

    def set(self, fires_at: Timestamp, dynamic_timer_tag: str = "") -> None:
        self.bundle.timers[self.family, self.key, dynamic_timer_tag] = _Timer(fires_at, self.hold)
