"""The stateful DoFn whose activations are committed by timers, so that a slow call holds back its own key alone.

Only Beam's documented interface: an event is written into its key's cell, its activation started, and a REAL_TIME
timer of the key looks for its end. Until its event is committed, another REAL_TIME timer keeps the watermark at the
event's time; it fires, by being set to now, when the event is committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from beam_agents.activation.agent import Agent
from beam_agents.activation.cell import read_cell, write_cell
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.durable import Committed, DurableEvents, durable_events_for
from beam_agents.activation.polling import Polling
from beam_agents.activation.resources import resources_for
from beam_agents.activation.staging import Scope
from beam_agents.beam.claims import ClaimLostError, claims
from beam_agents.beam.emission import Emission
from beam_agents.proto import AgentCell

__all__ = ["TimedAgentDoFn"]

_CELL = beam.DoFn.StateParam(ReadModifyWriteStateSpec("cell", BytesCoder()))
_POLL_SPEC = TimerSpec("poll", TimeDomain.REAL_TIME)
_POLL = beam.DoFn.TimerParam(_POLL_SPEC)
_HOLD_SPEC = TimerSpec("hold", TimeDomain.REAL_TIME)
_HOLD = beam.DoFn.TimerParam(_HOLD_SPEC)

_WINDOW = GlobalWindow()
_GRID_MS = 100
_HELD_BACK_S = 0.5
_MARGIN_MS = 60_000


class TimedAgentDoFn(beam.DoFn):  # type: ignore[misc]
    """Runs `agent` for each `(key, event)` of the global window; keys are bytes.

    What a callback is told of the time is not used: runners disagree about it.

    Args:
        agent: the coroutine function.
        config: how agents run.
        namespace: scopes positions and journal records.
    """

    def __init__(self, agent: Agent, config: AgentConfig, namespace: str) -> None:
        self._agent = agent
        self._config = config
        self._scope = Scope(namespace)
        self._step_id = uuid.uuid4().hex
        self._emission = Emission()
        self._bundle = _Bundle()

    def start_bundle(self) -> None:
        self._give_up()

    def process(
        self,
        element: tuple[bytes, Any],
        cell: Any = _CELL,
        timestamp: Any = beam.DoFn.TimestampParam,
        poll: Any = _POLL,
        hold: Any = _HOLD,
    ) -> Iterator[Any]:
        key, event = element
        resources = resources_for(self._config)
        while not resources.admission.wait(_HELD_BACK_S):
            self._events().require_alive()
        stored = self._read(key, cell)
        deadline_ms = self._deadline_ms(stored, resources.now_ms())
        self._events().add(stored, event, timestamp.micros, deadline_ms)
        hold.set(_at(deadline_ms), dynamic_timer_tag=_tag(deadline_ms))
        yield from self._advance(key, stored, cell, poll, hold)

    @on_timer(_POLL_SPEC)  # type: ignore[untyped-decorator]
    def look(
        self, key: Any = beam.DoFn.KeyParam, cell: Any = _CELL, poll: Any = _POLL, hold: Any = _HOLD
    ) -> Iterator[Any]:
        """Called by Beam now and then while the key has events."""
        if self._events().is_running(key):
            self._look_again(key, poll, progressed=False)
            return
        stored = self._read(key, cell)
        if stored.queue:
            yield from self._advance(key, stored, cell, poll, hold)

    @on_timer(_HOLD_SPEC)  # type: ignore[untyped-decorator]
    def let_go(self, key: Any = beam.DoFn.KeyParam, cell: Any = _CELL) -> None:
        """Called by Beam when a hold was released: the commit that released it is in the key's state."""
        if self._events().needs_proof(key):
            self._read(key, cell)

    def finish_bundle(self) -> None:
        for key in self._bundle.keys:
            if not claims.holds((self._step_id, key), self._bundle):
                raise ClaimLostError(key)
        self._emission.record(resources_for(self._config))
        self._give_up()

    def teardown(self) -> None:
        self._give_up()

    def _events(self) -> DurableEvents:
        return durable_events_for(self._agent, self._config, self._scope, self._step_id, keep_committed=True)

    def _polling(self) -> Polling:
        return _pollings.setdefault(self._step_id, Polling(_GRID_MS))

    def _read(self, key: bytes, cell: Any) -> AgentCell:
        claims.take((self._step_id, key), self._bundle)
        stored = read_cell(cell.read())
        if key not in self._bundle.keys:
            self._bundle.keys.add(key)
            self._events().read(key, stored)
        return stored

    def _advance(self, key: bytes, stored: AgentCell, cell: Any, poll: Any, hold: Any) -> Iterator[Any]:
        committed = self._events().advance(key, stored)
        cell.write(write_cell(stored))
        if stored.queue:
            self._look_again(key, poll, progressed=bool(committed))
        else:
            self._polling().end(key)
        yield from self._emitted(committed, hold)

    def _emitted(self, committed: Iterable[Committed], hold: Any) -> Iterator[Any]:
        now_ms = resources_for(self._config).now_ms()
        for one in committed:
            self._polling().learn(one.outcome.took_ms)
            timestamp = Timestamp(micros=one.queued.event_time_micros)
            yield from self._emission.elements(one.outcome, timestamp, _WINDOW, PANE_INFO_UNKNOWN)
            hold.set(_at(now_ms), dynamic_timer_tag=_tag(one.queued.deadline_ms))

    def _look_again(self, key: bytes, poll: Any, *, progressed: bool) -> None:
        poll.set(_at(self._polling().renew(key, resources_for(self._config).now_ms(), progressed=progressed)))

    def _deadline_ms(self, stored: AgentCell, now_ms: int) -> int:
        """When the event is committed at the latest: two deadlines, for its slot and its run, after the one before it.

        No two events of a key have the same, so that it names the event's hold.
        """
        before_ms = stored.queue[-1].deadline_ms if stored.queue else now_ms + _MARGIN_MS
        return int(max(before_ms, now_ms) + 2_000 * self._config.activation_timeout_s) + 1

    def _give_up(self) -> None:
        """Forget the bundle."""
        self._emission = Emission()
        for key in self._bundle.keys:
            claims.give_back((self._step_id, key), self._bundle)
        self._bundle = _Bundle()


_pollings: dict[str, Polling] = {}  # one for all threads of a step: a key's bundles come on any of them


class _Bundle:
    """The keys whose state a bundle has read."""

    def __init__(self) -> None:
        self.keys: set[bytes] = set()


def _at(ms: int) -> Timestamp:
    return Timestamp(micros=ms * 1_000)


def _tag(deadline_ms: int) -> str:
    return str(deadline_ms)
