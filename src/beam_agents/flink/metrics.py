"""What is counted, as Flink counters and distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyflink.datastream import RuntimeContext

from beam_agents.activation.metrics import BREAKER_OPENS, Measures
from beam_agents.activation.resources import Resources

__all__ = ["AgentMetrics"]


class AgentMetrics:
    """The counters and distributions of `activation.metrics` in the metric group `beam_agents`.

    For the thread of one subtask. Counts nothing where `python.metric.enabled` is false. What is recorded is told to
    Flink with `tell`: PyFlink drops what a timer tells.
    """

    def __init__(self, context: RuntimeContext) -> None:
        found = context.get_metrics_group()
        self._group = found and found.add_group("beam_agents")
        self._made: dict[str, Any] = {}
        self._untold = Measures()

    def record(self, measures: Measures, resources: Resources) -> None:
        """Add `measures`, and how often circuits have opened since this was last called."""
        if self._group is None:
            return
        measures.counts[BREAKER_OPENS] += resources.take_breaker_opens()
        self._untold.counts.update(measures.counts)
        for name, values in measures.values.items():
            self._untold.values[name] += values

    def held(self, events: int) -> None:
        """How many events a key holds in its state."""
        if self._group is not None:
            self._untold.values["queued_events"].append(events)

    def tell(self) -> None:
        """Tell Flink what was recorded. Only while an element is processed or a bundle finished."""
        told, self._untold = self._untold, Measures()
        if self._group is None:
            return
        for name, count in told.counts.items():
            if count:
                self._metric(name, self._group.counter).inc(count)
        for name, values in told.values.items():
            distribution = self._metric(name, self._group.distribution)
            for value in values:
                distribution.update(value)

    def tell_with_gauge(self, name: str, gauge: Callable[[], int]) -> None:
        """Add a gauge, and tell what was recorded when it is asked, which is when a bundle is finished."""

        def asked() -> int:
            self.tell()
            return gauge()

        if self._group is not None:
            self._group.gauge(name, asked)

    def _metric(self, name: str, make: Callable[[str], Any]) -> Any:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = make(name)
        return found
