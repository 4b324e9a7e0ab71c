"""The events that wait in a key's state cell: for engines that commit an activation later than they start it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from beam_agents.activation.agent import Agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.events import decode_event, encode_event
from beam_agents.activation.in_flight import Base, InFlight, Waiting
from beam_agents.activation.loop import STALLED_MARGIN_S
from beam_agents.activation.numbering import seq_of
from beam_agents.activation.resources import Resources, resources_for
from beam_agents.activation.run import Outcome, failure_of
from beam_agents.activation.staging import Scope
from beam_agents.proto import AgentCell

__all__ = ["MOST_UNPROVEN", "Committed", "DurableEvents", "durable_events_for"]

MOST_UNPROVEN = 1_000
"""Of how many keys commits are kept until the key has another event anyway."""

_LOOK_AHEAD = 64
_ROOM_S = _PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class Committed:
    """An activation that has left its cell: what it came to, and the event as it was queued."""

    outcome: Outcome
    queued: AgentCell.QueuedEvent


class DurableEvents:
    """Queues events in the cells of their keys, runs them, and takes out what is finished, in order for each key.

    The cell is the truth: the engine reads it before and writes it after each call, in one step with what it
    emits. Each key belongs to one thread of the engine at a time. `keep_committed` is explained at
    `InFlight`.
    """

    def __init__(self, agent: Agent, resources: Resources, scope: Scope, *, keep_committed: bool = False) -> None:
        self._config = resources.config
        self._resources = resources
        self._flights = InFlight(agent, resources, scope, decode_event, keep_committed=keep_committed)

    def read(self, key: bytes, cell: AgentCell) -> None:
        """The engine has read `cell`, in a later step than the one that wrote it."""
        self._flights.read(key, _base_of(cell))

    def needs_proof(self, key: bytes) -> bool:
        """Whether to read the cell: commits of the key are kept until then, and of too many others as well."""
        return len(self._flights.unproven) > MOST_UNPROVEN and key in self._flights.unproven

    def add(self, cell: AgentCell, event: object, event_time_micros: int, deadline_ms: int = 0) -> None:
        """Queue `event`. Start it with `advance`."""
        counted = max(cell.next_position, cell.next_seq)
        try:
            seq = seq_of(event, counted, self._config)
        except Exception:  # raised again, and then a dead letter, when it is its turn
            seq = counted
        cell.queue.add(seq=seq, event_time_micros=event_time_micros, event=encode_event(event), deadline_ms=deadline_ms)
        cell.next_position = max(counted, seq + 1)

    def advance(self, key: bytes, cell: AgentCell) -> list[Committed]:
        """Take out what is finished, and have under way what there is room for. Never waits.

        Raises what must fail the bundle or job.
        """
        self.start(key, cell)
        committed = self._take_finished(key, cell)
        if committed and cell.queue:
            self.start(key, cell)
        return committed

    def drain(self, key: bytes, cell: AgentCell) -> Iterator[Committed]:
        """Blocks until nothing waits in the cell any more, and takes out each event when it is finished."""
        while cell.queue:
            if self.start(key, cell, wait_s=_ROOM_S):
                self._await_head(key)
            yield from self._take_finished(key, cell)

    def room(self) -> int:
        """How many more keys there is room for in this process."""
        return self._resources.admission.room()

    def has_begun(self, key: bytes) -> bool:
        """Whether the key's first event is under way here, or finished. Reads no cell."""
        return self._flights.has_begun(key)

    def require_alive(self) -> None:
        """Raises `RuntimeError` when an agent has blocked the loop for longer than an activation may take."""
        self._resources.loop.require_alive(self._config.activation_timeout_s + STALLED_MARGIN_S)

    def run_with(self, agent: Agent) -> None:
        """Have what starts from now on run by `agent`: the same, or a newer version in the same process."""
        self._flights.agent = agent

    def is_running(self, key: bytes) -> bool:
        """Whether the key's first event is under way here and not finished. Reads no cell."""
        return self._flights.is_running(key)

    def start(self, key: bytes, cell: AgentCell, *, wait_s: float = 0.0) -> bool:
        """Have under way what there is room for, waited for at most `wait_s` seconds; whether the first event is."""
        waiting = [Waiting(one.seq, one.event) for one in cell.queue[:_LOOK_AHEAD]]
        return self._flights.sync(key, _base_of(cell), waiting, wait_s=wait_s)

    def _await_head(self, key: bytes) -> None:
        while True:
            try:
                self._flights.await_head(key, _PATIENCE_S)
            except TimeoutError:
                self.require_alive()
            else:
                return

    def _take_finished(self, key: bytes, cell: AgentCell) -> list[Committed]:
        taken: list[Committed] = []
        while cell.queue and (outcome := self._flights.head(key)) is not None:
            failure = failure_of(outcome, self._config.on_error)
            if failure is not None:
                raise failure
            queued = AgentCell.QueuedEvent()
            queued.CopyFrom(cell.queue[0])
            taken.append(Committed(outcome, queued))
            cell.next_seq = max(cell.next_seq, outcome.position.seq + 1)
            cell.agent_state = outcome.state
            if outcome.cache:
                cell.cache.ParseFromString(outcome.cache)
            del cell.queue[0]
            self._flights.committed(key)
        return taken


def _base_of(cell: AgentCell) -> Base:
    cache = cell.cache.SerializeToString(deterministic=True) if cell.HasField("cache") else b""
    return Base(cell.agent_state, cache, cell.next_seq)


_tables: dict[tuple[int, str, str], DurableEvents] = {}


def durable_events_for(
    agent: Agent, config: AgentConfig, scope: Scope, step: str, *, keep_committed: bool = False
) -> DurableEvents:
    """The events of one step in this process, so that a task of the engine that starts again finds its flights."""
    resources = resources_for(config)
    name = (id(resources), config.identity, step)
    found = _tables.get(name)
    if found is None:
        found = _tables[name] = DurableEvents(agent, resources, scope, keep_committed=keep_committed)
        resources.loop.on_close(lambda: _forget(name))
    found.run_with(agent)
    return found


async def _forget(name: tuple[int, str, str]) -> None:
    _tables.pop(name, None)
