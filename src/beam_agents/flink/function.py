"""Agents in keyed state: events queue durably, run in the background, and are committed by timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, TimeDomain, TimerService
from pyflink.datastream.state import MapState, MapStateDescriptor, StateTtlConfig

from beam_agents.activation import Agent, AgentConfig, Scope
from beam_agents.activation.cell import read_cell, write_cell
from beam_agents.activation.durable import Committed, durable_events_for
from beam_agents.activation.events import decode_event
from beam_agents.activation.metrics import Measures
from beam_agents.activation.polling import Polling
from beam_agents.activation.resources import resources_for
from beam_agents.flink.guards import is_guard, set_guards
from beam_agents.flink.metrics import AgentMetrics
from beam_agents.flink.outputs import converting
from beam_agents.flink.side_outputs import rows_of
from beam_agents.flink.types import BYTES
from beam_agents.proto import AgentCell

__all__ = ["AgentFunction", "Step"]

_FINAL_MS = 2**63 - 1
_START_AT_END_MS, _COMMIT_AT_END_MS = _FINAL_MS - 2, _FINAL_MS - 1
_NO_TIME_MICROS = -(2**63)
_NO_TIME_MS = -(2**63)
_MOST_MICROS = 2**63 - 1
_ROOM_S = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a job.

    Attributes:
        uid: names it within the job.
        namespace: scopes its positions and journal records.
        to_output: turns what an agent emits into the declared type.
        ttl: when the state of an idle key is dropped.
    """

    uid: str
    namespace: str
    to_output: Callable[[Any], Any]
    ttl: StateTtlConfig | None = None


@dataclass(slots=True)
class _Bucket:
    """What this process knows of a bucket.

    Attributes:
        begun: the keys with events whose first event is under way, or finished and not committed.
        unstarted: the keys with events for which there was no room yet, in order of arrival.
        resting: keys without events whose cell is still among those with events.
        next_ms: when the bucket is looked at next.
    """

    begun: set[bytes] = field(default_factory=set)
    unstarted: dict[bytes, None] = field(default_factory=dict)
    resting: set[bytes] = field(default_factory=set)
    next_ms: int | None = None

    def __len__(self) -> int:
        """Keys with events."""
        return len(self.begun) + len(self.unstarted)


class AgentFunction(KeyedProcessFunction):  # type: ignore[misc]
    """Runs `agent` for each event of a key, in order; emits rows with the event's time in ms at their end.

    Nothing waits: an event is put into its key's cell, its activation is started on the process's loop, and a
    processing-time timer commits what is finished. State, outputs and traces change in one step, between two
    checkpoints. After a restart the state says what is missing; it is started again, and the journal answers
    what was answered before.

    Keys for which there is no room wait in the order of their arrival, and nobody overtakes them.

    Flink's key is a bucket of keys. When a bucket is touched for the first time in a process, all its keys with
    events are found in its state. Guards touch it, should nothing else.
    """

    def __init__(self, agent: Agent, config: AgentConfig, step: Step) -> None:
        self._agent = agent
        self._config = config
        self._step = step

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called by Flink on the worker."""
        idle = MapStateDescriptor("beam_agents.cells", BYTES(), BYTES())
        if self._step.ttl is not None:
            idle.enable_time_to_live(self._step.ttl)
        self._idle: MapState = runtime_context.get_map_state(idle)
        self._waiting: MapState = runtime_context.get_map_state(
            MapStateDescriptor("beam_agents.waiting", BYTES(), BYTES())
        )
        step = self._step
        self._events = durable_events_for(
            converting(self._agent, step.to_output), self._config, Scope(step.namespace), step.uid
        )
        self._buckets: dict[int, _Bucket] = {}
        self._unstarted: dict[bytes, None] = {}
        self._polling = Polling()
        self._resources = resources_for(self._config)
        self._metrics = AgentMetrics(runtime_context)
        self._metrics.tell_with_gauge("queued_keys", lambda: sum(map(len, self._buckets.values())))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Sequence[Any]:
        """Make the event durable and start its activation. A row without an event only touches the bucket."""
        number, key, event = value
        timers = ctx.timer_service()
        bucket = self._touched(number, timers)
        if event is None:
            return ()
        is_among_waiting = key in bucket.begun or key in bucket.unstarted or key in bucket.resting
        cell = read_cell((self._waiting if is_among_waiting else self._idle).get(key))
        self._events.add(cell, decode_event(event), _to_micros(ctx.timestamp()))
        now_ms = timers.current_processing_time()
        if key in bucket.begun or (key not in bucket.unstarted and len(self._unstarted) < self._events.room()):
            outputs = self._advance(bucket, key, cell, now_ms)
        else:
            self._wait_for_room(bucket, key)
            self._store(bucket, key, cell)
            outputs = []
        self._set_timer(bucket, now_ms, timers)
        return outputs

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Sequence[Any]:
        """Commit what is finished; look again later, unless the input has ended."""
        timers = ctx.timer_service()
        bucket = self._touched(ctx.get_current_key(), timers)
        if ctx.time_domain() == TimeDomain.EVENT_TIME:
            return self._at_end(bucket, timestamp)
        if is_guard(timestamp):
            set_guards(timers, timestamp)
            self._let_rest(bucket)
        if bucket.next_ms is None or timestamp < bucket.next_ms:
            return ()
        bucket.next_ms = None
        self._events.require_alive()
        now_ms = timers.current_processing_time()
        due = [key for key in bucket.begun if self._polling.due_ms(key) <= now_ms]
        outputs = [one for key in due for one in self._look(bucket, key, now_ms)]
        outputs += self._begin_waiting(bucket, now_ms)
        self._set_timer(bucket, now_ms, timers)
        return outputs

    def _touched(self, number: int, timers: TimerService) -> _Bucket:
        bucket = self._buckets.get(number)
        if bucket is not None:
            return bucket
        bucket = self._buckets[number] = _Bucket()
        for key, stored in self._waiting.items():
            if read_cell(stored).queue:
                self._wait_for_room(bucket, key)
            else:
                bucket.resting.add(key)
        timers.register_event_time_timer(_START_AT_END_MS)
        timers.register_event_time_timer(_COMMIT_AT_END_MS)
        set_guards(timers)
        self._set_timer(bucket, timers.current_processing_time(), timers)
        return bucket

    def _look(self, bucket: _Bucket, key: bytes, now_ms: int) -> list[Any]:
        if self._events.is_running(key):
            self._polling.renew(key, now_ms, progressed=False)
            return []
        return self._resume(bucket, key, now_ms)

    def _begin_waiting(self, bucket: _Bucket, now_ms: int) -> list[Any]:
        """Begin as many of the keys that wait as are the first in the whole process and find room."""
        if not bucket.unstarted:
            return []
        first = set(islice(self._unstarted, self._events.room()))
        begin = [key for key in islice(bucket.unstarted, len(first)) if key in first]
        return [one for key in begin for one in self._resume(bucket, key, now_ms)]

    def _resume(self, bucket: _Bucket, key: bytes, now_ms: int) -> list[Any]:
        return self._advance(bucket, key, read_cell(self._waiting.get(key)), now_ms)

    def _wait_for_room(self, bucket: _Bucket, key: bytes) -> None:
        bucket.unstarted.setdefault(key)
        self._unstarted.setdefault(key)

    def _advance(self, bucket: _Bucket, key: bytes, cell: AgentCell, now_ms: int) -> list[Any]:
        """Commit what is finished of a key, and have under way what there is room for."""
        outputs = self._emitted(self._events.advance(key, cell))
        self._store(bucket, key, cell)
        if cell.queue and self._events.has_begun(key):
            self._forget_waiting(bucket, key)
            self._polling.renew(key, now_ms, progressed=bool(outputs) or key not in bucket.begun)
            bucket.begun.add(key)
        elif cell.queue:
            bucket.begun.discard(key)
            self._polling.end(key)
            self._wait_for_room(bucket, key)
        return outputs

    def _forget_waiting(self, bucket: _Bucket, key: bytes) -> None:
        bucket.unstarted.pop(key, None)
        self._unstarted.pop(key, None)

    def _at_end(self, bucket: _Bucket, timestamp: int) -> Sequence[Any]:
        """The input has ended. First every key's events are started, then every key's are awaited."""
        outputs = []
        for key in sorted([*bucket.begun, *bucket.unstarted]):
            cell = read_cell(self._waiting.get(key))
            if timestamp == _START_AT_END_MS:
                self._events.start(key, cell, wait_s=_ROOM_S)
            else:
                outputs += self._emitted(self._events.drain(key, cell))
                self._store(bucket, key, cell)
        return outputs

    def _emitted(self, committed: Iterable[Committed]) -> list[Any]:
        measures, outputs = Measures(), []
        for one in committed:
            measures.add(one.outcome)
            self._polling.learn(one.outcome.took_ms)
            outputs += rows_of(one.outcome, _to_ms(one.queued.event_time_micros))
        if measures.counts:
            self._metrics.record(measures, self._resources)
        return outputs

    def _store(self, bucket: _Bucket, key: bytes, cell: AgentCell) -> None:
        self._metrics.held(len(cell.queue))
        self._waiting.put(key, write_cell(cell))
        if cell.queue:
            bucket.resting.discard(key)
            return
        bucket.begun.discard(key)
        self._forget_waiting(bucket, key)
        self._polling.end(key)
        bucket.resting.add(key)
        if self._step.ttl is not None:
            self._let_rest(bucket)

    def _let_rest(self, bucket: _Bucket) -> None:
        """Move the cells of keys without events. Not at once, as each state that a bundle changes costs a request."""
        for key in bucket.resting:
            self._idle.put(key, self._waiting.get(key))
        if self._step.ttl is None and not len(bucket):
            self._waiting.clear()  # PyFlink's worker remembers keys that are removed one by one
        else:
            for key in bucket.resting:
                self._waiting.remove(key)
        bucket.resting.clear()

    def _set_timer(self, bucket: _Bucket, now_ms: int, timers: TimerService) -> None:
        """For the earliest look that the bucket needs, unless there is an earlier one."""
        looks = [*map(self._polling.due_ms, bucket.begun)]
        if bucket.unstarted:
            looks.append(self._polling.room_ms(now_ms))
        due_ms = min(looks, default=None)
        if due_ms is not None and (bucket.next_ms is None or due_ms < bucket.next_ms):
            bucket.next_ms = due_ms
            timers.register_processing_time_timer(due_ms)


def _to_micros(time_ms: int | None) -> int:
    if time_ms is None or time_ms == _NO_TIME_MS:
        return _NO_TIME_MICROS
    return max(-_MOST_MICROS, min(time_ms * 1000, _MOST_MICROS))


def _to_ms(micros: int) -> int:
    return _NO_TIME_MS if micros == _NO_TIME_MICROS else micros // 1000
