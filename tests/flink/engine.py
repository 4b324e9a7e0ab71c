"""A stand-in for Flink's side of a keyed function: state, timers and metrics of one subtask, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Engine", "Runtime"]

FINAL_MS = 2**63 - 1


@dataclass
class Engine:
    """Calls a keyed function as Flink does, behind `before` if there is one; time moves only when told to."""

    function: Any
    event_time: Any
    processing_time: Any
    now_ms: int = 1_000
    key: Any = None
    before: Any = None
    maps: dict[tuple[str, Any], dict[Any, bytes]] = field(default_factory=dict)
    timers: dict[str, set[tuple[int, Any]]] = field(default_factory=lambda: {"event": set(), "processing": set()})
    counters: Counter[str] = field(default_factory=Counter)
    gauges: dict[str, Any] = field(default_factory=dict)
    fired: Counter[Any] = field(default_factory=Counter)
    descriptors: dict[str, Any] = field(default_factory=dict)
    writes: int = 0
    with_metrics: bool = True

    def open(self) -> Engine:
        """Open the function, as a new worker process does."""
        self.function.open(Runtime(self))
        return self

    def element(self, key: Any, value: Any, time_ms: int | None) -> list[Any]:
        """An element arrives."""
        self.key = key
        rows = self.before.process_element(value, _Context(self, time_ms))
        return [output for row in list(rows) for output in self._row(row, time_ms)]

    def _row(self, row: Any, time_ms: int | None) -> list[Any]:
        self.key = row[0]
        return self._finished(self.function.process_element(row, _Context(self, time_ms)))

    def held(self, name: str) -> dict[Any, bytes]:
        """Everything in the map states of one name, whatever Flink's key."""
        return {
            key: data for (state, _), entries in self.maps.items() if state == name for key, data in entries.items()
        }

    def advance(self, ms: int) -> list[Any]:
        """Let processing time pass; timers that are due fire, those that they set included."""
        self.now_ms += ms
        outputs: list[Any] = []
        while due := sorted(timer for timer in self.timers["processing"] if timer[0] <= self.now_ms):
            outputs += self._fire("processing", due[0], self.processing_time)
        return outputs

    def finish(self) -> list[Any]:
        """The input ends: every event-time timer fires, in order."""
        outputs: list[Any] = []
        while self.timers["event"]:
            outputs += self._fire("event", min(self.timers["event"]), self.event_time)
        return outputs

    def _fire(self, domain: str, timer: tuple[int, Any], time_domain: Any) -> list[Any]:
        self.timers[domain].discard(timer)
        self.fired[timer[1]] += 1
        self.key = timer[1]
        return self._finished(self.function.on_timer(timer[0], _Context(self, timer[0], time_domain)))

    def _finished(self, outputs: Any) -> list[Any]:
        """Every call is a bundle, at whose end gauges are asked."""
        found = list(outputs)
        for name, gauge in self.gauges.items():
            self.counters[name] = gauge()
        return found


@dataclass
class _Context:
    engine: Engine
    time_ms: int | None
    domain: Any = None

    def get_current_key(self) -> Any:
        return self.engine.key

    def timestamp(self) -> int | None:
        return self.time_ms

    def time_domain(self) -> Any:
        return self.domain

    def timer_service(self) -> _Timers:
        return _Timers(self.engine)


@dataclass
class _Timers:
    engine: Engine

    def current_processing_time(self) -> int:
        return self.engine.now_ms

    def register_processing_time_timer(self, ms: int) -> None:
        self.engine.timers["processing"].add((ms, self.engine.key))

    def register_event_time_timer(self, ms: int) -> None:
        self.engine.timers["event"].add((ms, self.engine.key))


@dataclass
class Runtime:
    """What a function's `open` gets."""

    engine: Engine

    def get_map_state(self, descriptor: Any) -> _Map:
        self.engine.descriptors[descriptor.name] = descriptor
        return _Map(self.engine, descriptor.name)

    def get_metrics_group(self) -> _Metrics | None:
        return _Metrics(self.engine) if self.engine.with_metrics else None


@dataclass
class _Map:
    """Like PyFlink's, it is not to be changed while it is gone through."""

    engine: Engine
    name: str
    changes: int = 0

    def _entries(self) -> dict[Any, bytes]:
        return self.engine.maps.setdefault((self.name, self.engine.key), {})

    def get(self, key: Any) -> bytes | None:
        return self._entries().get(key)

    def items(self) -> Iterator[tuple[Any, bytes]]:
        changes = self.changes
        for item in list(self._entries().items()):
            assert self.changes == changes, "changed while gone through"
            yield item

    def put(self, key: Any, value: bytes) -> None:
        self.changes += 1
        self.engine.writes += 1
        self._entries()[key] = value

    def clear(self) -> None:
        self.changes += 1
        self._entries().clear()

    def remove(self, key: Any) -> None:
        self.changes += 1
        self._entries().pop(key, None)


@dataclass
class _Metrics:
    engine: Engine

    def add_group(self, name: str) -> _Metrics:
        return self

    def counter(self, name: str) -> _Metric:
        return _Metric(self.engine, name)

    def distribution(self, name: str) -> _Metric:
        return _Metric(self.engine, name)

    def gauge(self, name: str, asked: Any) -> None:
        self.engine.gauges[name] = asked


@dataclass
class _Metric:
    engine: Engine
    name: str

    def inc(self, count: int) -> None:
        self.engine.counters[self.name] += count

    def update(self, value: int) -> None:
        self.engine.counters[self.name] = value
