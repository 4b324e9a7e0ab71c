"""Activations put together from their events, and the slowest and dearest of them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from beam_agents import attributes as names
from beam_agents.proto import TraceEvent
from beam_agents.report.call_facts import CallFacts
from beam_agents.report.dead_letters import Letter
from beam_agents.report.heavy import TopFew
from beam_agents.report.tally import Paid

__all__ = ["Activation", "Activations", "Bar"]

_KEPT_BARS: Final = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """One call in a waterfall."""

    step_index: int
    start_ms: int
    end_ms: int
    label: str
    outcome: str
    tokens: int
    waited_ms: float


@dataclass(slots=True)
class Activation:
    """One run of an agent for one event, as far as its events were seen."""

    trace_id: bytes
    entity_key: bytes
    seq: int
    start_ms: int
    end_ms: int
    outcome: str = ""
    error: str = ""
    calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)
    bars: list[Bar] = field(default_factory=list)

    @property
    def duration_ms(self) -> int:
        """From its first moment to its last; never negative."""
        return max(0, self.end_ms - self.start_ms)


class Activations:
    """Keeps the activations whose events still come in, and of the finished ones the slowest and dearest.

    At most `open_at_once` are held open. The events of one activation that lie further apart than that many
    others make two, each shown as an activation of its own.
    """

    def __init__(self, *, keep: int = 10, open_at_once: int = 20_000) -> None:
        self.committed = 0
        self.dead_letters = 0
        self._open: OrderedDict[bytes, Activation] = OrderedDict()
        self._open_at_once = open_at_once
        self._slowest: TopFew[Activation] = TopFew(keep)
        self._dearest: TopFew[Activation] = TopFew(keep)

    def add_call(self, call: CallFacts, paid: Paid) -> None:
        """Add a call to its activation."""
        own = self._of(call.trace_id, call.entity_key, call.seq, call.start_ms, call.end_ms)
        own.calls += 1
        if not call.stored:
            own.tokens += paid.usage.total_tokens if paid.usage else 0
            own.money += paid.money or 0
        if len(own.bars) < _KEPT_BARS:
            own.bars.append(_bar(call))

    def add_activation(self, event: TraceEvent) -> None:
        """Add the ACTIVATION event."""
        own = self._of(event.trace_id, event.entity_key, event.seq, event.start_ms, event.end_ms)
        own.outcome = event.attributes.get(names.OUTCOME, "")
        own.error = event.attributes.get(names.ERROR_TYPE, "")
        if own.outcome == "dead_letter":
            self.dead_letters += 1
        else:
            self.committed += 1

    def add_dead_letter(self, letter: Letter) -> None:
        """Mark an activation, whose calls were added before, as a dead letter."""
        known = self._open.get(letter.trace_id or _position(letter.entity_key, letter.seq))
        start_ms = letter.start_ms or (known.start_ms if known else 0)
        own = self._of(letter.trace_id, letter.entity_key, letter.seq, start_ms, letter.end_ms or start_ms)
        if own.outcome != "dead_letter":
            self.dead_letters += 1
        own.outcome, own.error = "dead_letter", letter.error_type

    def slowest(self) -> list[Activation]:
        """The slowest, slowest first."""
        self._finish()
        return self._slowest.best()

    def dearest(self) -> list[Activation]:
        """Those that cost the most, dearest first."""
        self._finish()
        return [one for one in self._dearest.best() if one.tokens]

    def _of(self, trace_id: bytes, entity_key: bytes, seq: int, start_ms: int, end_ms: int) -> Activation:
        identity = trace_id or _position(entity_key, seq)
        own = self._open.get(identity)
        if own is None:
            own = self._open[identity] = Activation(trace_id, entity_key, seq, start_ms, end_ms)
            if len(self._open) > self._open_at_once:
                self._offer(self._open.popitem(last=False)[1])
        own.start_ms, own.end_ms = min(own.start_ms, start_ms), max(own.end_ms, end_ms)
        return own

    def _offer(self, done: Activation) -> None:
        self._slowest.offer(done.duration_ms, done)
        self._dearest.offer(float(done.money) * 1e9 + done.tokens, done)

    def _finish(self) -> None:
        while self._open:
            self._offer(self._open.popitem(last=False)[1])


def _position(entity_key: bytes, seq: int) -> bytes:
    return b"%s/%d" % (entity_key, seq)


def _bar(call: CallFacts) -> Bar:
    outcome = call.error or (f"replayed ({call.replay})" if call.stored else "answered")
    return Bar(
        call.step_index,
        call.start_ms,
        max(call.start_ms, call.end_ms),
        call.model,
        outcome,
        call.usage.total_tokens if call.usage else 0,
        call.waited_ms,
    )
