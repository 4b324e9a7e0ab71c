"""Agents in keyed state: events queue durably, run in the background, and are committed by timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, TimeDomain, TimerService
from pyflink.datastream.state import StateTtlConfig, ValueState, ValueStateDescriptor

from beam_agents.activation import Agent, AgentConfig, Outcome, Scope
from beam_agents.activation.cell import read_cell, write_cell
from beam_agents.activation.durable import Committed, durable_events_for
from beam_agents.activation.metrics import Measures
from beam_agents.activation.polling import Polling
from beam_agents.activation.resources import resources_for
from beam_agents.flink.metrics import AgentMetrics
from beam_agents.flink.outputs import converting
from beam_agents.flink.types import BYTES
from beam_agents.proto import AgentCell

__all__ = ["AgentFunction", "Step", "Tags", "require_key"]

_FINAL_MS = 2**63 - 1
_START_AT_END_MS, _COMMIT_AT_END_MS = _FINAL_MS - 2, _FINAL_MS - 1
_NO_TIME_MICROS = -(2**63)
_NO_TIME_MS = -(2**63)
_MOST_MICROS = 2**63 - 1
_ROOM_S = 1.0


@dataclass(frozen=True, slots=True)
class Tags:
    """Where traces and dead letters go."""

    traces: OutputTag
    errors: OutputTag


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a job.

    Attributes:
        uid: names it within the job.
        namespace: scopes its positions and journal records.
        tags: where traces and dead letters go.
        to_output: turns what an agent emits into the declared type.
        ttl: when the state of an idle key is dropped.
    """

    uid: str
    namespace: str
    tags: Tags
    to_output: Callable[[Any], Any]
    ttl: StateTtlConfig | None = None


class AgentFunction(KeyedProcessFunction):  # type: ignore[misc]
    """Runs `agent` for each event of a key, in order; emits `Row(event time in ms, output)`.

    Nothing waits: an event is put into the key's state cell, its activation is started on the process's
    loop, and a processing-time timer commits what is finished. State, outputs and traces change in one step,
    between two checkpoints. After a restart the state says what is missing; it is started again, and the
    journal answers what was answered before.
    """

    def __init__(self, agent: Agent, config: AgentConfig, step: Step) -> None:
        self._agent = agent
        self._config = config
        self._step = step
        self._tags = step.tags

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called by Flink on the worker."""
        descriptor = ValueStateDescriptor("beam_agents.cell", BYTES())
        if self._step.ttl is not None:
            descriptor.enable_time_to_live(self._step.ttl)
        self._state: ValueState = runtime_context.get_state(descriptor)
        step = self._step
        self._events = durable_events_for(
            converting(self._agent, step.to_output), self._config, Scope(step.namespace), step.uid
        )
        self._polling = Polling()
        self._resources = resources_for(self._config)
        self._metrics = AgentMetrics(runtime_context)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Sequence[Any]:
        """Make the event durable and start its activation."""
        key, timers = require_key(ctx.get_current_key()), ctx.timer_service()
        cell = read_cell(self._state.value())
        if not cell.queue:
            timers.register_event_time_timer(_START_AT_END_MS)
            timers.register_event_time_timer(_COMMIT_AT_END_MS)
        self._events.add(cell, value, _to_micros(ctx.timestamp()))
        outputs = self._emitted(self._events.advance(key, cell))
        self._store(key, cell, timers)
        now_ms = timers.current_processing_time()
        first_ms = self._polling.begin(key, now_ms) if cell.queue else None
        if first_ms is not None:
            timers.register_processing_time_timer(first_ms)
        return outputs

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Sequence[Any]:
        """Commit what is finished; look again later, unless the input has ended."""
        key, timers = require_key(ctx.get_current_key()), ctx.timer_service()
        if ctx.time_domain() == TimeDomain.EVENT_TIME:
            return self._at_end(key, timestamp, timers)
        if self._polling.is_superseded(key, timestamp):
            return ()
        if self._events.is_running(key):
            self._look_again(key, timers, progressed=False)
            return ()
        cell = read_cell(self._state.value())
        if not cell.queue:
            self._polling.end(key)
            return ()
        outputs = self._emitted(self._events.advance(key, cell))
        self._store(key, cell, timers)
        if cell.queue:
            self._look_again(key, timers, progressed=bool(outputs))
        return outputs

    def _at_end(self, key: bytes, timestamp: int, timers: TimerService) -> Sequence[Any]:
        """The input has ended. First every key's events are started, then every key's are awaited."""
        cell = read_cell(self._state.value())
        if timestamp == _START_AT_END_MS:
            self._events.start(key, cell, wait_s=_ROOM_S)
            return ()
        outputs = self._emitted(self._events.drain(key, cell))
        self._store(key, cell, timers)
        return outputs

    def _emitted(self, committed: Iterable[Committed]) -> list[Any]:
        measures, outputs = Measures(), []
        for one in committed:
            measures.add(one.outcome)
            self._polling.learn(one.outcome.took_ms)
            outputs += self._emitted_by(one.outcome, one.queued.event_time_micros)
        if measures.counts:
            self._metrics.record(measures, self._resources)
        return outputs

    def _emitted_by(self, outcome: Outcome, micros: int) -> list[Any]:
        letter = outcome.dead_letter
        if letter is not None:
            return [(self._tags.errors, orjson.dumps(letter.to_json()).decode())]
        time_ms = _NO_TIME_MS if micros == _NO_TIME_MICROS else micros // 1000
        traces = [(self._tags.traces, event.SerializeToString()) for event in outcome.trace_events]
        return [*(Row(time_ms, value) for value in outcome.outputs), *traces]

    def _store(self, key: bytes, cell: AgentCell, timers: TimerService) -> None:
        self._state.update(write_cell(cell))
        self._metrics.held(len(cell.queue))
        if not cell.queue:
            self._polling.end(key)
            timers.delete_event_time_timer(_START_AT_END_MS)
            timers.delete_event_time_timer(_COMMIT_AT_END_MS)

    def _look_again(self, key: bytes, timers: TimerService, *, progressed: bool) -> None:
        now_ms = timers.current_processing_time()
        timers.register_processing_time_timer(self._polling.renew(key, now_ms, progressed=progressed))


def _to_micros(time_ms: int | None) -> int:
    if time_ms is None or time_ms == _NO_TIME_MS:
        return _NO_TIME_MICROS
    return max(-_MOST_MICROS, min(time_ms * 1000, _MOST_MICROS))


def require_key(key: object) -> bytes:
    """The key as bytes. Raises `TypeError` for anything but text and bytes."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"keys must be str or bytes, not {type(key).__name__}: use key_by(..., key_type=Types.STRING())")
