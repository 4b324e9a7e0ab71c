"""The activations of one bundle: started as its elements come, run at once, in order for each key.

The bundle's thread reads and writes state and takes out what is finished; everything else happens on the loop.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beam_agents.activation.agent import Agent
from beam_agents.activation.line import Line, LineWork
from beam_agents.activation.loop import STALLED_MARGIN_S
from beam_agents.activation.numbering import run_numbered
from beam_agents.activation.resources import Resources
from beam_agents.activation.run import Activation, Outcome, failure_of
from beam_agents.activation.staging import Position, Scope
from beam_agents.beam.state import CellValue

__all__ = ["Bundle", "Finished", "Lane", "Pending"]

_HELD_BACK_S = 0.5


@dataclass(frozen=True, slots=True)
class Pending:
    """An event that waits for its turn, and what its outputs must carry."""

    event: Any
    timestamp: Any
    pane_info: Any


@dataclass(frozen=True, slots=True)
class Finished:
    """An activation that is over."""

    lane: Lane
    pending: Pending
    outcome: Outcome


@dataclass(slots=True, eq=False)
class Lane(Line[Pending]):
    """One key and window of a bundle: its state handle, its cell as it stands, and its line of events."""

    entity_key: bytes
    scope: Scope
    window: Any
    handle: Any
    cell: CellValue
    changed: bool = False


class Bundle:
    """Runs activations on the loop for the thread that a bundle is processed on."""

    def __init__(self, agent: Agent, resources: Resources, *, stalled_margin_s: float = STALLED_MARGIN_S) -> None:
        self._agent = agent
        self.resources = resources
        self._stalled_after_s = resources.config.activation_timeout_s + stalled_margin_s
        self._open = 0
        self._finished: deque[Finished] = deque()
        self._arrived = threading.Condition()
        self._announcing = False
        self._failed: BaseException | None = None
        self._abandoned = False
        self._work = LineWork(resources, self._run, self._is_wanted, self._on_broken)
        self.lanes: dict[Any, Lane] = {}

    def until_admitted(self) -> Iterator[Finished]:
        """Blocks while too much is under way in the process, and gives what is finished meanwhile."""
        while not self.resources.admission.wait(_HELD_BACK_S):
            self.resources.loop.require_alive(self._stalled_after_s)
            yield from self.take_finished()

    def submit(self, lane: Lane, pending: Pending) -> None:
        """Run the agent for `pending`, after the earlier events of its lane."""
        self._open += 1
        self._work.put(lane, pending)

    def remaining(self) -> Iterator[Finished]:
        """Blocks until every activation is finished, and gives each as it is."""
        while self._open:
            yield from self.take_finished(wait=True)

    def take_finished(self, *, wait: bool = False) -> list[Finished]:
        """What is finished by now. With `wait`, at least one, unless nothing is open any more.

        Raises what failed the bundle.
        """
        if wait:
            self._await_arrival()
        taken = [self._finished.popleft() for _ in range(len(self._finished))]
        self.require_sound()
        self._open -= len(taken)
        return taken

    def _await_arrival(self) -> None:
        with self._arrived:
            while self._open and not self._finished and self._failed is None:
                if not self._arrived.wait(_HELD_BACK_S):
                    self.resources.loop.require_alive(self._stalled_after_s)

    def require_sound(self) -> None:
        """Raises what failed the bundle."""
        if self._failed is not None:
            raise self._failed

    def abandon(self) -> None:
        """The bundle will not be committed: start nothing more. What is at work runs on to its deadline."""
        self._abandoned = True

    def _is_wanted(self, lane: Lane) -> bool:
        del lane
        return not self._abandoned and self._failed is None

    async def _run(self, lane: Lane, pending: Pending) -> None:
        cell = lane.cell
        position = Position(lane.scope, lane.entity_key, cell.next_seq)
        activation = Activation(self._agent, pending.event, position, cell.state, cell.cache)
        outcome = await run_numbered(activation, self.resources)
        failure = failure_of(outcome, self.resources.config.on_error)
        if failure is not None:
            self._fail(failure)
            return
        seq = outcome.position.seq
        lane.cell = CellValue(max(lane.cell.next_seq, seq + 1), outcome.state, outcome.cache)
        lane.changed = True
        self._finished.append(Finished(lane, pending, outcome))
        if not self._announcing:  # what ends in one turn of the loop wakes the bundle's thread once
            self._announcing = True
            self.resources.loop.loop.call_soon(self._announce)

    def _announce(self) -> None:
        self._announcing = False
        with self._arrived:
            self._arrived.notify()

    def _on_broken(self, lane: Lane, error: BaseException) -> None:
        del lane
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._arrived:
            if self._failed is None:
                self._failed = error
            self._arrived.notify()
