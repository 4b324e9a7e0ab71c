"""How a finished activation leaves a step: its elements, and what is counted of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from apache_beam.coders import Coder
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beam_agents.activation.resources import Resources
from beam_agents.activation.spend import count_calls
from beam_agents.activation.staging import Scope
from beam_agents.beam.bundle import Finished

__all__ = ["ERRORS", "METRICS_NAMESPACE", "TRACES", "Emission", "Scopes"]

TRACES = "traces"
ERRORS = "errors"
METRICS_NAMESPACE = "beam_agents"
_THROTTLED = "cumulativeThrottlingSeconds"


class Emission:
    """Turns finished activations into elements, and counts them. For one bundle and its thread.

    Metrics must be recorded on the bundle's thread: elsewhere they are silently lost.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def of(self, finished: Finished) -> Iterator[Any]:
        """The elements of an activation, in its event's window and at its time."""
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

    def record(self, resources: Resources) -> None:
        """Add what was counted to Beam's metrics, and the time that requests were held back.

        That is under the name by which runners find it when they decide about more workers.
        """
        self._counts[_THROTTLED] += resources.take_throttled_s()
        for name, count in self._counts.items():
            if count:
                Metrics.counter(METRICS_NAMESPACE, name).inc(count)
        self._counts = Counter()

    def _count(self, finished: Finished) -> None:
        letter = finished.outcome.dead_letter
        if letter is None:
            self._counts["activations_committed"] += 1
            self._counts.update(count_calls(finished.outcome.trace_events[1:]))
            return
        self._counts["activations_failed"] += 1
        self._counts.update(count_calls(letter.trace_events))


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
