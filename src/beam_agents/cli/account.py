"""The numbers of a run, gathered while it goes on."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.proto import TraceEvent
from beam_agents.report.account import Account
from beam_agents.report.call_facts import CallFacts
from beam_agents.report.distribution import Distribution
from beam_agents.report.money import PriceBook
from beam_agents.report.tally import Paid, Tally

__all__ = ["RunAccount"]


@dataclass(slots=True)
class RunAccount:
    """Counts events, calls, requests, tokens and money of one run. Thread-safe.

    Attributes:
        events: how many the run was given.
        account: every request in its class of spend.
        paid: every answer that this run paid for, whether or not its activation committed.
        committed: activations that succeeded.
        outputs: values that agents emitted.
        dead: dead letters by the name of their error.
        counts: `calls`, `hits`, `recovered`, `requests`, `retries`, `in_doubt`, `in_doubt_before` (requests of earlier
            processes), `failed_requests`, `waited_ms`.
        unpriced: models without a known price.
        latency: durations of the calls that asked a model.
        example: the message of one dead letter for each kind.
    """

    events: int
    prices: PriceBook
    account: Account = field(init=False)
    paid: Tally = field(default_factory=Tally)
    committed: int = 0
    outputs: int = 0
    dead: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    latency: Distribution = field(default_factory=Distribution)
    unpriced: set[str] = field(default_factory=set)
    example: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.account = Account(self.prices)

    @property
    def done(self) -> int:
        """Events that are through, one way or the other."""
        return self.committed + self.dead.total()

    @property
    def recovered(self) -> Tally:
        """Every answer that came from the journal, and what it would have cost."""
        return self.account.saved.get("journal", Tally())

    def add_output(self) -> None:
        """One value was emitted."""
        with self._lock:
            self.outputs += 1

    def add_event(self, event: TraceEvent) -> None:
        """One committed trace event."""
        with self._lock:
            if event.event_type == TraceEvent.ACTIVATION:
                self.committed += 1
                self.account.add_set_aside(CallFacts.of(event))
            elif event.event_type == TraceEvent.LLM_CALL:
                self._add_call(CallFacts.of(event), committed=True)

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """One failed activation, with the calls that it made."""
        kind = f"{letter.error_type} ({letter.reason})" if letter.reason else letter.error_type
        with self._lock:
            self.dead[kind] += 1
            self.example.setdefault(kind, letter.message)
            for event in letter.trace_events:
                if event.event_type == TraceEvent.LLM_CALL:
                    self._add_call(CallFacts.of(event), committed=False)
                else:
                    self.account.add_set_aside(CallFacts.of(event))

    def _add_call(self, call: CallFacts, *, committed: bool) -> None:
        paid: Paid = self.account.add_call(call, committed=committed)
        cut = max(0, len(call.log) - call.attempts)  # the log begins with the requests of earlier processes
        earlier, own = call.log[:cut], call.log[cut:]
        if call.billed:
            self.paid.add(paid)
        for one in own:
            if one.outcome == "answered" and one.attempt_id != call.attempt_id:
                self.paid.add(self.account.paid_for(call, one.usage))
        self.counts.update(
            calls=1,
            hits=call.stored,
            recovered=call.replay == "journal",
            requests=call.attempts,
            retries=max(0, call.attempts - 1),
            in_doubt=sum(one.outcome == "in_doubt" for one in own),
            in_doubt_before=sum(one.outcome == "in_doubt" for one in earlier),
            failed_requests=sum(one.outcome == "failed" for one in own),
            waited_ms=round(call.waited_ms),
        )
        if not call.stored:
            self.latency.add(call.duration_ms)
        if paid.usage is not None and paid.money is None:
            self.unpriced.add(call.response_model or call.model)
