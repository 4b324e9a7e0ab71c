"""The activations under way in a process, for engines that commit later than they start."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from beam_agents.activation.agent import Agent
from beam_agents.activation.dead_letter import EncodedEvent
from beam_agents.activation.line import Line, LineWork
from beam_agents.activation.numbering import run_numbered
from beam_agents.activation.resources import Resources
from beam_agents.activation.run import Activation, Outcome, refused
from beam_agents.activation.staging import Position, Scope

__all__ = ["Base", "InFlight", "Waiting"]


@dataclass(frozen=True, slots=True)
class Base:
    """What a key has committed: its state as JSON, its serialized replay cache (empty for none), its next position."""

    state: bytes = b""
    cache: bytes = b""
    next_seq: int = 0

    def after(self, outcome: Outcome) -> Base:
        """What the key has committed once `outcome` is."""
        return Base(outcome.state, outcome.cache, max(self.next_seq, outcome.position.seq + 1))


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that is durable but not committed: its position, and its bytes."""

    seq: int
    event: bytes


DecodeEvent: TypeAlias = Callable[[bytes], Any]


@dataclass(slots=True, eq=False)
class _Flight:
    waiting: Waiting
    outcome: Future[Outcome] = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class _Lane(Line[_Flight]):
    """The flights of one key, in order, on top of `base`, and those before it that may come back, each with its base.

    `tip` and `abandoned` are the loop's as well; the rest is the engine's.
    """

    key: bytes
    base: Base
    tip: Base
    flights: deque[_Flight] = field(default_factory=deque)
    unproven: list[tuple[Base, _Flight]] = field(default_factory=list)
    abandoned: bool = False


class InFlight:
    """Runs the durable events of each key one after another, and keeps their outcomes until they are committed.

    The engine's state is the truth; this table only speeds it up. `sync` tells it what the state says: what
    is already under way goes on, what is missing is started (the journal answers what ran before), and
    flights that rest on another past are abandoned. Each key belongs to one thread of the engine at a time.

    With `keep_committed`, what is committed is kept until `read` proves that the engine's state holds it: the step that
    committed it may fail yet, and then its outcome is still here.

    Attributes:
        agent: what further flights run.
        unproven: the keys of which something committed waits for the next `read`.
    """

    def __init__(
        self, agent: Agent, resources: Resources, scope: Scope, decode: DecodeEvent, *, keep_committed: bool = False
    ) -> None:
        self.agent = agent
        self._resources = resources
        self._scope = scope
        self._decode = decode
        self._keep_committed = keep_committed
        self._work = LineWork(resources, self._run, _is_wanted, _on_broken)
        self._lanes: dict[bytes, _Lane] = {}
        self.unproven: set[bytes] = set()

    def __len__(self) -> int:
        """Keys with something that is not known to be committed."""
        return len(self._lanes)

    def read(self, key: bytes, base: Base) -> None:
        """A later step of the engine has read `base` from its state: what that holds is forgotten, the rest is back."""
        lane = self._lanes.get(key)
        if lane is None:
            return
        while lane.unproven and lane.base != base:
            lane.base, flight = lane.unproven.pop()
            lane.flights.appendleft(flight)
        lane.unproven.clear()
        self.unproven.discard(key)
        self._drop_if_empty(lane)

    def sync(self, key: bytes, base: Base, waiting: Sequence[Waiting], *, wait_s: float = 0.0) -> bool:
        """Have everything of `waiting` under way that there is room for; whether the first one is.

        Args:
            key: the key.
            base: what the key has committed.
            waiting: its events, in the order in which they are to run.
            wait_s: how long to wait for room. What finds none is left out; call again later.
        """
        lane = self._lanes.get(key)
        if lane is not None and not _continues(lane, base, waiting):
            lane.abandoned = True
            self.unproven.discard(key)
            lane = None
        if lane is None:
            lane = self._lanes[key] = _Lane(key, base, base)
        for one in waiting[len(lane.flights) :]:
            if not self._resources.admission.wait(wait_s):
                break
            flight = _Flight(one)
            lane.flights.append(flight)
            self._work.put(lane, flight)
        self._drop_if_empty(lane)
        return bool(lane.flights)

    def head(self, key: bytes) -> Outcome | None:
        """The outcome of the key's first event, if that is under way here and finished."""
        lane = self._lanes.get(key)
        if lane is None or not lane.flights or not lane.flights[0].outcome.done():
            return None
        return lane.flights[0].outcome.result()

    def has_begun(self, key: bytes) -> bool:
        """Whether the key has a flight here, finished or not."""
        lane = self._lanes.get(key)
        return lane is not None and bool(lane.flights)

    def is_running(self, key: bytes) -> bool:
        """Whether the key's first event is under way here and not finished. While one is unproven, nobody knows."""
        lane = self._lanes.get(key)
        if lane is None or lane.unproven:
            return False
        return not lane.flights[0].outcome.done()

    def await_head(self, key: bytes, timeout_s: float | None) -> Outcome:
        """The outcome of the key's first event, which must be under way; waited for at most `timeout_s` seconds.

        Raises `TimeoutError`.
        """
        return self._lanes[key].flights[0].outcome.result(timeout_s)

    def committed(self, key: bytes) -> None:
        """The engine has committed the outcome of the key's first event."""
        lane = self._lanes[key]
        flight = lane.flights.popleft()
        if self._keep_committed:
            lane.unproven.append((lane.base, flight))
            self.unproven.add(key)
        lane.base = lane.base.after(flight.outcome.result())
        self._drop_if_empty(lane)

    def _drop_if_empty(self, lane: _Lane) -> None:
        if not lane.flights and not lane.unproven:
            del self._lanes[lane.key]

    async def _run(self, lane: _Lane, flight: _Flight) -> None:
        position = Position(self._scope, lane.key, flight.waiting.seq)
        activation = Activation(self.agent, None, position, lane.tip.state, lane.tip.cache)
        try:
            activation = replace(activation, event=self._decode(flight.waiting.event))
        except Exception as error:
            outcome = _undecodable(activation, flight.waiting.event, error, self._resources)
        else:
            outcome = await run_numbered(activation, self._resources)
        lane.tip = lane.tip.after(outcome)
        flight.outcome.set_result(outcome)


def _undecodable(activation: Activation, stored: bytes, error: Exception, resources: Resources) -> Outcome:
    """A dead letter with the event's bytes; its type is unknown."""
    told = ValueError(f"an event of {len(stored)} bytes in keyed state cannot be read by this version: {error}")
    told.__cause__ = error
    return refused(replace(activation, event=EncodedEvent("unknown", stored[1:])), told, resources)


def _is_wanted(lane: _Lane) -> bool:
    return not lane.abandoned


def _on_broken(lane: _Lane, error: BaseException) -> None:
    """Nothing of the lane will end any more: whoever waits is told, and the next `sync` starts anew."""
    lane.abandoned = True
    for flight in lane.flights.copy():
        if not flight.outcome.done():
            flight.outcome.set_exception(error)


def _continues(lane: _Lane, base: Base, waiting: Sequence[Waiting]) -> bool:
    """Whether the lane's flights are the first of `waiting`, begun from the same past."""
    if lane.abandoned or lane.base != base or len(lane.flights) > len(waiting):
        return False
    return all(flight.waiting == one for flight, one in zip(lane.flights, waiting, strict=False))
