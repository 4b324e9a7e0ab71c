"""Takes in events and dead letters one by one and keeps what a report needs, in bounded memory."""

from __future__ import annotations

from typing import Final

from beam_agents.proto import TraceEvent
from beam_agents.report.account import Account, SpendClass
from beam_agents.report.activations import Activations
from beam_agents.report.call_facts import CallFacts
from beam_agents.report.dead_letters import Letter
from beam_agents.report.distribution import Distribution
from beam_agents.report.heavy import HeavyKeys
from beam_agents.report.money import PriceBook
from beam_agents.report.problems import Kinds
from beam_agents.report.slices import CallSlice, CircuitSlice
from beam_agents.report.tally import Paid
from beam_agents.report.timeline import Timeline
from beam_agents.report.words import key_text

__all__ = ["Gathering"]

_MOST_ENDPOINTS: Final = 40
_OTHER_ENDPOINTS: Final = "(other endpoints)"


class Gathering:
    """One run, taken in event by event, in any order; dead letters come after the events.

    Counts and sums are exact. Percentiles are within 1 %; the heaviest keys are exact up to 4,096 keys; the
    slowest and dearest activations are exact while the events of one lie within 20,000 others.
    """

    def __init__(self, prices: PriceBook | None = None) -> None:
        self.account = Account(prices)
        self.activations = Activations()
        self.keys = HeavyKeys()
        self.latency = Distribution()
        self.waiting = Distribution()
        self.activation_time = Distribution()
        self.timeline: Timeline[CallSlice] = Timeline(CallSlice)
        self.circuits: dict[str, Timeline[CircuitSlice]] = {}
        self.errors = Kinds()
        self.failed_requests = Kinds()
        self.schema_failures = Kinds()
        self.letters = Kinds()
        self.total = CallSlice()
        self.other_events = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def add_event(self, event: TraceEvent) -> None:
        """Take in one committed event."""
        if event.event_type == TraceEvent.LLM_CALL:
            self._add_call(CallFacts.of(event), committed=True)
        elif event.event_type == TraceEvent.ACTIVATION:
            self._span(event.start_ms, event.end_ms)
            self.activation_time.add(event.end_ms - event.start_ms)
            self.activations.add_activation(event)
            self.account.add_set_aside(CallFacts.of(event))
        else:
            self.other_events += 1

    def add_dead_letter(self, letter: Letter) -> None:
        """Take in one dead letter with its events, which are committed nowhere else."""
        for event in letter.events:
            if event.event_type == TraceEvent.LLM_CALL:
                self._add_call(CallFacts.of(event), committed=False)
            else:
                self.account.add_set_aside(CallFacts.of(event))
        identity = letter.trace_id or repr((letter.scope, letter.entity_key, letter.seq)).encode()
        for call in letter.calls:
            if call.spend in tuple(SpendClass):
                self.account.add_request(identity, call.attempt_id, SpendClass(call.spend), "", Paid(call.usage))
        self.activations.add_dead_letter(letter)
        if letter.end_ms:
            self._span(letter.start_ms, letter.end_ms)
            self.activation_time.add(letter.end_ms - letter.start_ms)
        kind = f"{letter.error_type} ({letter.reason})" if letter.reason else letter.error_type
        self.letters.add(kind, _letter_example(letter))

    def _add_call(self, call: CallFacts, *, committed: bool) -> None:
        self._note_problems(call)
        paid = self.account.add_call(call, committed=committed)
        self._span(call.start_ms, call.end_ms)
        self.total.add(call)
        self.timeline.at(call.end_ms).add(call)
        self.activations.add_call(call, paid)
        if not call.stored:
            self.latency.add(call.duration_ms)
            self.waiting.add(call.waited_ms)
            self.keys.add(call.entity_key, paid.usage.total_tokens if paid.usage else 0, paid.money or 0)
        if call.circuit:
            self._circuit(call.endpoint).at(call.end_ms).seen[call.circuit] += 1

    def _note_problems(self, call: CallFacts) -> None:
        if call.error:
            self.errors.add(call.error, _call_example(call))
        if call.schema_failure:
            self.schema_failures.add(call.schema_failure, _call_example(call))
        for logged in call.log:
            if logged.outcome != "answered" and not self.account.knows(call.trace_id, logged.attempt_id):
                status = "" if logged.status is None else f" {logged.status}"
                doubt = ", in doubt" if logged.outcome == "in_doubt" else ""
                kind = f"{logged.error or logged.outcome}{status}{doubt}"
                self.failed_requests.add(kind, _call_example(call) | {"request": logged.attempt_id})

    def _circuit(self, endpoint: str) -> Timeline[CircuitSlice]:
        if endpoint not in self.circuits and len(self.circuits) >= _MOST_ENDPOINTS:
            endpoint = _OTHER_ENDPOINTS
        return self.circuits.setdefault(endpoint, Timeline(CircuitSlice, at_most=120))

    def _span(self, start_ms: int, end_ms: int) -> None:
        self.first_ms = start_ms if self.first_ms is None else min(self.first_ms, start_ms)
        self.last_ms = end_ms if self.last_ms is None else max(self.last_ms, end_ms)


def _call_example(call: CallFacts) -> dict[str, str]:
    return {
        "key": key_text(call.entity_key),
        "seq": str(call.seq),
        "step": str(call.step_index),
        "model": call.model,
        "endpoint": call.endpoint,
        "attempts": str(call.attempts),
        "call": call.call_id,
    }


def _letter_example(letter: Letter) -> dict[str, str]:
    return {
        "key": key_text(letter.entity_key),
        "seq": str(letter.seq),
        "message": letter.message,
        "attempts": str(letter.attempts),
        "scope": letter.scope,
    }
