"""What the calls of a replay under another model would cost: an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from beam_agents.activation.replay import ReplayedCall
from beam_agents.cli.wording import counted
from beam_agents.report.money import PriceBook, Priced
from beam_agents.report.tally import Paid, Tally

__all__ = ["Estimate", "paid_words", "to_be_paid"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Prices calls that would have to be paid by the tokens of the answers that the journal knows at their steps.

    Attributes:
        model: `vendor:model` that would be asked.
        prices: where prices come from.
        now_ms: when it would be paid.
    """

    model: str
    prices: PriceBook
    now_ms: int

    def price(self, call: ReplayedCall) -> Priced:
        """What one call would cost, or `None` when tokens or price are not known."""
        if call.usage is None:
            return None
        vendor = self.model.partition(":")[0]
        return self.prices.price(call.usage, model=call.model_id, provider=vendor, endpoint="", at_ms=self.now_ms)

    def total(self, calls: tuple[ReplayedCall, ...]) -> Tally:
        """All that would have to be paid."""
        tally = Tally()
        for call in to_be_paid(calls):
            tally.add(Paid(call.usage, self.price(call)))
        return tally

    def basis(self) -> str:
        """What the estimate rests on, for people."""
        date = datetime.fromtimestamp(self.now_ms / 1000, UTC).date().isoformat()
        return (
            f"an estimate: the tokens of the answers in the journal, at the prices of {self.prices.source}, on {date}, "
            f"in {self.prices.currency}; {self.model} counts tokens in its own way and may answer at another length"
        )


def to_be_paid(calls: tuple[ReplayedCall, ...]) -> list[ReplayedCall]:
    """The calls that the journal has no answer of."""
    return [call for call in calls if call.kind == "call" and call.source in ("stand_in", "missing", "diverged")]


def paid_words(calls: tuple[ReplayedCall, ...]) -> str:
    """How many calls would have to be paid."""
    asked = [call for call in calls if call.kind == "call"]
    return f"{len(to_be_paid(calls))} of {counted(len(asked), 'call')} would have to be paid"
