"""What engines count: the table of counters and distributions, and what an activation adds to them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from beam_agents import attributes as names
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.activation.run import Outcome
from beam_agents.activation.spend import usage_of
from beam_agents.proto import TraceEvent

__all__ = ["BREAKER_OPENS", "COUNTERS", "DEAD_LETTERS", "DISTRIBUTIONS", "Measures"]

BREAKER_OPENS: Final = "breaker_opens"
DEAD_LETTERS: Final = "dead_letters_"
"""Prefix of the counters of dead letters by their kind, such as `dead_letters_OutputSchemaError_truncated`."""

COUNTERS: Final[Mapping[str, str]] = {
    "activations_committed": "activations that succeeded",
    "activations_failed": "activations that became dead letters",
    "calls": "`complete`s",
    "attempts": "requests on the wire",
    "retries": "requests after the first of their call",
    "failed_calls": "calls that raised",
    "cache_hits": "calls served without a request: from the activation's cache, the journal, or an equal call at work",
    "recovered_calls": "of these, the ones from the journal",
    "in_doubt": "requests that may have been served, but gave no readable answer",
    "waited_ms": "milliseconds waited for a place and between requests",
    "input_tokens": "billed tokens read, cached ones included",
    "output_tokens": "billed tokens written, reasoning included",
    "cached_tokens": "of the billed tokens read, those from the vendor's cache",
    "reasoning_tokens": "of the billed tokens written, those of reasoning",
    BREAKER_OPENS: "times that the circuit of an endpoint opened, failed trials included",
}
"""What each counter counts."""

DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "activation_ms": "duration of an activation, failed ones included",
    "call_ms": "duration of a call that was not served from a store, retries and waiting included",
    "call_waited_ms": "of that, the time waited for a place and between requests",
    "call_attempts": "requests of such a call",
    "call_input_tokens": "tokens read for a billed call",
    "call_output_tokens": "tokens written by a billed call",
}
"""What one value of each distribution is."""


class Measures:
    """Adds up activations until an engine takes the sums over into its own metrics.

    Attributes:
        counts: sums by the names of `COUNTERS`, and dead letters by kind.
        values: values by the names of `DISTRIBUTIONS`.
    """

    __slots__ = ("counts", "values")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.values: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, outcome: Outcome) -> None:
        """Add an activation, however it ended."""
        if outcome.dead_letter is None:
            self.add_committed(outcome.trace_events)
        else:
            self.add_dead_letter(outcome.dead_letter)

    def add_committed(self, events: Iterable[TraceEvent]) -> None:
        """Add events of activations that succeeded."""
        self.counts["activations_committed"] += self._add_events(events)

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """Add an activation that failed, and the calls that it made."""
        self.counts["activations_failed"] += 1
        self.counts[DEAD_LETTERS + letter.kind.replace(".", "_")] += 1
        self._add_events(letter.trace_events)

    def _add_events(self, events: Iterable[TraceEvent]) -> int:
        """How many of `events` tell of an activation; what they tell is added."""
        activations = 0
        for event in events:
            if event.event_type == TraceEvent.LLM_CALL:
                self._add_call(event)
            elif event.event_type == TraceEvent.ACTIVATION:
                activations += 1
                self.values["activation_ms"].append(_duration_ms(event))
        return activations

    def _add_call(self, event: TraceEvent) -> None:
        counts, found = self.counts, event.attributes
        attempts, waited_ms = int(found[names.ATTEMPTS]), int(found.get(names.WAITED_MS, 0))
        counts["calls"] += 1
        counts["attempts"] += attempts
        counts["retries"] += max(0, attempts - 1)
        counts["in_doubt"] += int(found[names.IN_DOUBT])
        counts["waited_ms"] += waited_ms
        counts["failed_calls"] += names.ERROR_TYPE in found
        if found[names.CACHE_HIT] == "true":
            counts["cache_hits"] += 1
            counts["recovered_calls"] += found.get(names.REPLAY) == "journal"
            return
        self.values["call_ms"].append(_duration_ms(event))
        self.values["call_waited_ms"].append(waited_ms)
        self.values["call_attempts"].append(attempts)
        if found[names.BILLED] == "true":
            self._add_tokens(event)

    def _add_tokens(self, event: TraceEvent) -> None:
        usage = usage_of(event)
        if usage is None:
            return
        self.counts["input_tokens"] += usage.prompt_tokens
        self.counts["output_tokens"] += usage.completion_tokens
        self.counts["cached_tokens"] += usage.cached_tokens or 0
        self.counts["reasoning_tokens"] += usage.reasoning_tokens or 0
        self.values["call_input_tokens"].append(usage.prompt_tokens)
        self.values["call_output_tokens"].append(usage.completion_tokens)


def _duration_ms(event: TraceEvent) -> int:
    return max(0, event.end_ms - event.start_ms)
