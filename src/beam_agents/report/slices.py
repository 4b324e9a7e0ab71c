"""What a slice of time holds: calls, and states of circuits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from beam_agents.report.call_facts import CallFacts
from beam_agents.report.distribution import Distribution

__all__ = ["CallSlice", "CircuitSlice"]


@dataclass(slots=True)
class CallSlice:
    """The calls that ended in one slice of time."""

    answered: int = 0
    stored: int = 0
    failed: int = 0
    requests: int = 0
    tokens: int = 0
    waited_ms: float = 0
    latency: Distribution = field(default_factory=Distribution)

    def add(self, call: CallFacts) -> None:
        """Count one call; one that failed is neither answered nor stored."""
        self.failed += bool(call.error)
        self.stored += call.stored and not call.error
        self.answered += not call.stored and not call.error
        self.requests += call.attempts
        self.waited_ms += call.waited_ms
        if not call.stored:
            self.latency.add(call.duration_ms)
            self.tokens += call.usage.total_tokens if call.usage else 0

    def merge(self, other: CallSlice) -> None:
        """Take in the calls of `other`."""
        for name in ("answered", "stored", "failed", "requests", "tokens", "waited_ms"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latency.merge(other.latency)


@dataclass(slots=True)
class CircuitSlice:
    """How many calls saw the circuit of an endpoint in which state, in one slice of time."""

    seen: Counter[str] = field(default_factory=Counter)

    def merge(self, other: CircuitSlice) -> None:
        """Take in what `other` saw."""
        self.seen.update(other.seen)
