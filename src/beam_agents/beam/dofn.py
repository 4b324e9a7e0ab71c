"""The stateful DoFn that runs the activations of a bundle at once and commits them with the bundle.

It rests on facts of Beam's Python worker that its contract tests hold: user state is committed after
`finish_bundle`, there is one state handle for a key and window in a bundle, and what is written through a
captured handle by then is committed. Handles are used on the bundle's thread alone and never outlive it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from beam_agents.activation.agent import Agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.resources import resources_for
from beam_agents.beam.bundle import Bundle, Lane, Pending
from beam_agents.beam.claims import ClaimLostError, claims
from beam_agents.beam.emission import Emission, Scopes
from beam_agents.beam.state import AgentCellCoder, CellValue

__all__ = ["CELL", "AgentDoFn"]

_EMPTY = CellValue()
CELL = beam.DoFn.StateParam(ReadModifyWriteStateSpec("cell", AgentCellCoder()))


class AgentDoFn(beam.DoFn):  # type: ignore[misc]
    """Runs `agent` for each `(key, event)`; keys are bytes.

    Args:
        agent: the coroutine function.
        config: how agents run.
        namespace: scopes positions and journal records.
        window_coder: tells windows apart in that scope.
    """

    def __init__(self, agent: Agent, config: AgentConfig, namespace: str, window_coder: Coder) -> None:
        self._agent = agent
        self._config = config
        self._scopes = Scopes(namespace, window_coder)
        self._step_id = uuid.uuid4().hex
        self._bundle: Bundle | None = None
        self._emission = Emission()

    def start_bundle(self) -> None:
        self._give_up()

    def process(
        self,
        element: tuple[bytes, Any],
        cell: Any = CELL,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        pane_info: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        key, event = element
        if self._bundle is None:
            self._bundle = Bundle(self._agent, resources_for(self._config))
        bundle = self._bundle
        bundle.require_sound()
        lane = bundle.lanes.get((key, window)) or self._open_lane(bundle, key, window, cell)
        for finished in bundle.until_admitted():
            yield from self._emission.of(finished)
        bundle.submit(lane, Pending(event, timestamp, pane_info))
        for finished in bundle.take_finished():
            yield from self._emission.of(finished)

    def finish_bundle(self) -> Iterator[Any]:
        bundle = self._bundle
        if bundle is None:
            return
        for finished in bundle.remaining():
            yield from self._emission.of(finished)
        self._commit(bundle)

    def teardown(self) -> None:
        self._give_up()

    def _open_lane(self, bundle: Bundle, key: bytes, window: Any, handle: Any) -> Lane:
        claims.take((self._step_id, key, window), bundle)
        stored: CellValue = handle.read() or _EMPTY
        lane = bundle.lanes[key, window] = Lane(key, self._scopes.of(window), window, handle, stored)
        return lane

    def _commit(self, bundle: Bundle) -> None:
        """Write what changed. The runner commits it, and the outputs with it, once `finish_bundle` is over."""
        for key, window in bundle.lanes:
            if not claims.holds((self._step_id, key, window), bundle):
                raise ClaimLostError(key)
        for lane in bundle.lanes.values():
            if lane.changed:
                lane.handle.write(lane.cell)
        self._emission.record(bundle.resources)
        self._give_up()

    def _give_up(self) -> None:
        """Forget the bundle; nothing of it may be touched any more."""
        bundle, self._bundle = self._bundle, None
        self._emission = Emission()
        self._scopes.forget()
        if bundle is not None:
            bundle.abandon()
            for key, window in bundle.lanes:
                claims.give_back((self._step_id, key, window), bundle)
