"""What is counted, as Flink counters and distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyflink.datastream import RuntimeContext

from beam_agents.activation.run import Outcome
from beam_agents.activation.spend import count_calls
from beam_agents.proto import TraceEvent

__all__ = ["AgentMetrics"]


class AgentMetrics:
    """Counters and distributions in the metric group `beam_agents`, updated when an activation is committed."""

    def __init__(self, context: RuntimeContext) -> None:
        self._group = context.get_metrics_group().add_group("beam_agents")
        self._made: dict[str, Any] = {}

    def record(self, outcome: Outcome) -> None:
        """Count a committed activation or a dead letter, and the calls of either."""
        self._count("activations_committed" if outcome.committed else "activations_failed", 1)
        letter = outcome.dead_letter
        events = outcome.trace_events if letter is None else letter.trace_events
        calls = [event for event in events if event.event_type == TraceEvent.LLM_CALL]
        for name, count in count_calls(calls).items():
            self._count(name, count)
        for event in calls:
            self._metric("call_ms", self._group.distribution).update(event.end_ms - event.start_ms)

    def held(self, events: int) -> None:
        """How many events a key holds in its state."""
        self._metric("queued_events", self._group.distribution).update(events)

    def _count(self, name: str, count: int) -> None:
        if count:
            self._metric(name, self._group.counter).inc(count)

    def _metric(self, name: str, make: Callable[[str], Any]) -> Any:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = make(name)
        return found
