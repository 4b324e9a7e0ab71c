"""How a finished activation leaves a step: its elements, and what is counted of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apache_beam.coders import Coder
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beam_agents.activation.metrics import Measures
from beam_agents.activation.resources import Resources
from beam_agents.activation.run import Outcome
from beam_agents.activation.staging import Scope
from beam_agents.beam.bundle import Finished
from beam_agents.beam.metrics import record

__all__ = ["ERRORS", "TRACES", "Emission", "Scopes"]

TRACES = "traces"
ERRORS = "errors"


class Emission:
    """Turns finished activations into elements, and counts them. For one bundle and its thread."""

    def __init__(self) -> None:
        self._measures = Measures()

    def of(self, finished: Finished) -> Iterator[Any]:
        """The elements of an activation, in its event's window and at its time."""
        pending = finished.pending
        return self.elements(finished.outcome, pending.timestamp, finished.lane.window, pending.pane_info)

    def elements(self, outcome: Outcome, timestamp: Any, window: Any, pane_info: Any) -> Iterator[Any]:
        """The elements of an activation whose event was at that time, in that window."""

        def placed(value: Any) -> WindowedValue:
            return WindowedValue(value, timestamp, (window,), pane_info)

        if outcome.dead_letter is not None:
            self._measures.add_dead_letter(outcome.dead_letter)
            yield TaggedOutput(ERRORS, placed(outcome.dead_letter))
            return
        events = outcome.trace_events
        self._measures.add_committed(events)
        for output in outcome.outputs:
            yield placed(output)
        for event in events:
            yield TaggedOutput(TRACES, placed(event))

    def record(self, resources: Resources) -> None:
        """Add what was counted to Beam's metrics. On the bundle's thread, once the bundle is through."""
        record(self._measures, resources)
        self._measures = Measures()


class Scopes:
    """The scope of each window of a step."""

    def __init__(self, namespace: str, window_coder: Coder) -> None:
        self._namespace = namespace
        self._window_coder = window_coder
        self._known: dict[Any, Scope] = {}

    def of(self, window: Any) -> Scope:
        """The scope of `window`."""
        scope = self._known.get(window)
        if scope is None:
            scope = self._known[window] = Scope(self._namespace, self._name(window))
        return scope

    def forget(self) -> None:
        """Drop what was remembered, so that a long stream of windows takes no room."""
        self._known = {}

    def _name(self, window: Any) -> str:
        if isinstance(window, GlobalWindow):
            return ""
        if isinstance(window, IntervalWindow):
            return f"{window.start.micros}-{window.end.micros}"
        return str(self._window_coder.encode(window).hex())
