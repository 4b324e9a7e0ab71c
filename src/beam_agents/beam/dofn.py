"""The stateful DoFn that runs the activations of a bundle at once and commits them with the bundle.

It rests on facts of Beam's Python worker that its contract tests hold: user state is committed after
`finish_bundle`, there is one state handle for a key and window in a bundle, and what is written through a
captured handle by then is committed. Handles are used on the bundle's thread alone and never outlive it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beam_agents.activation.agent import Agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.resources import resources_for
from beam_agents.activation.spend import count_calls
from beam_agents.activation.staging import Scope
from beam_agents.beam.bundle import Bundle, Finished, Lane, Pending
from beam_agents.beam.claims import ClaimLostError, claims
from beam_agents.beam.state import AgentCellCoder, CellValue

__all__ = ["ERRORS", "METRICS_NAMESPACE", "TRACES", "AgentDoFn"]

TRACES = "traces"
ERRORS = "errors"
METRICS_NAMESPACE = "beam_agents"

_EMPTY = CellValue()
_CELL = beam.DoFn.StateParam(ReadModifyWriteStateSpec("cell", AgentCellCoder()))


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
        self._namespace = namespace
        self._window_coder = window_coder
        self._step_id = uuid.uuid4().hex
        self._scopes: dict[Any, Scope] = {}
        self._bundle: Bundle | None = None
        self._counts: Counter[str] = Counter()

    def start_bundle(self) -> None:
        self._give_up()

    def process(
        self,
        element: tuple[bytes, Any],
        cell: Any = _CELL,
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
            yield from self._emitted(finished)
        bundle.submit(lane, Pending(event, timestamp, pane_info))
        for finished in bundle.take_finished():
            yield from self._emitted(finished)

    def finish_bundle(self) -> Iterator[Any]:
        bundle = self._bundle
        if bundle is None:
            return
        while bundle.open_activations:
            for finished in bundle.take_finished(wait=True):
                yield from self._emitted(finished)
        self._commit(bundle)

    def teardown(self) -> None:
        self._give_up()

    def _open_lane(self, bundle: Bundle, key: bytes, window: Any, handle: Any) -> Lane:
        claims.take((self._step_id, key, window), bundle)
        stored: CellValue = handle.read() or _EMPTY
        lane = bundle.lanes[key, window] = Lane(key, self._scope(window), window, handle, stored)
        return lane

    def _scope(self, window: Any) -> Scope:
        scope = self._scopes.get(window)
        if scope is None:
            scope = self._scopes[window] = Scope(self._namespace, self._window_name(window))
        return scope

    def _window_name(self, window: Any) -> str:
        if isinstance(window, GlobalWindow):
            return ""
        if isinstance(window, IntervalWindow):
            return f"{window.start.micros}-{window.end.micros}"
        return str(self._window_coder.encode(window).hex())

    def _emitted(self, finished: Finished) -> Iterator[Any]:
        outcome, pending, windows = finished.outcome, finished.pending, (finished.lane.window,)
        self._count(finished)

        def placed(value: Any) -> WindowedValue:
            return WindowedValue(value, pending.timestamp, windows, pending.pane_info)

        if outcome.dead_letter is not None:
            yield TaggedOutput(ERRORS, placed(outcome.dead_letter))
            return
        for output in outcome.outputs:
            yield placed(output)
        for event in outcome.trace_events:
            yield TaggedOutput(TRACES, placed(event))

    def _count(self, finished: Finished) -> None:
        letter = finished.outcome.dead_letter
        if letter is None:
            self._counts["activations_committed"] += 1
            self._counts.update(count_calls(finished.outcome.trace_events[1:]))
            return
        self._counts["activations_failed"] += 1
        self._counts.update(count_calls(letter.trace_events))

    def _commit(self, bundle: Bundle) -> None:
        """Write what changed. The runner commits it, and the outputs with it, once `finish_bundle` is over."""
        for key, window in bundle.lanes:
            if not claims.holds((self._step_id, key, window), bundle):
                raise ClaimLostError(key)
        for lane in bundle.lanes.values():
            if lane.changed:
                lane.handle.write(lane.cell)
        for name, count in self._counts.items():
            if count:
                Metrics.counter(METRICS_NAMESPACE, name).inc(count)
        self._give_up()

    def _give_up(self) -> None:
        """Forget the bundle; nothing of it may be touched any more."""
        bundle, self._bundle = self._bundle, None
        self._counts = Counter()
        self._scopes = {}
        if bundle is not None:
            bundle.abandon()
            for key, window in bundle.lanes:
                claims.give_back((self._step_id, key, window), bundle)
