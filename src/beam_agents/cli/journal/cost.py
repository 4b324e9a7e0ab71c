"""What the answers in a journal cost, by scope and model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from beam_agents.cli.namespaces import vendor_of
from beam_agents.journals import JournalRecord
from beam_agents.providers import PROVIDERS
from beam_agents.report.money import PriceBook, Priced
from beam_agents.report.tally import Paid, Tally
from beam_agents.values import TokenUsage

__all__ = ["JournalCost", "price_anywhere"]


def price_anywhere(prices: PriceBook, usage: TokenUsage, *, model: str, vendor: str, at_ms: int) -> Priced:
    """The price at `vendor`; where none is named, at the first vendor that has a model of this name."""
    for name in (vendor,) if vendor else tuple(sorted(PROVIDERS)):
        found = prices.price(usage, model=model, provider=name, endpoint="", at_ms=at_ms)
        if found is not None:
            return found
    return None


@dataclass(slots=True)
class JournalCost:
    """Prices each answer at the date of its request.

    Attributes:
        unpriced: models without a known price.
    """

    prices: PriceBook
    unpriced: set[str] = field(default_factory=set)
    _groups: dict[tuple[str, str], Tally] = field(default_factory=lambda: defaultdict(Tally))

    def add(self, record: JournalRecord) -> None:
        """Count one record; only answers of models cost anything."""
        call = record.call
        if record.outcome != "answered" or call.kind != "call":
            return
        money = None
        if record.usage is not None:
            money = price_anywhere(
                self.prices, record.usage, model=call.model_id, vendor=vendor_of(call.scope), at_ms=record.began_ms
            )
            if money is None:
                self.unpriced.add(call.model_id)
        self._groups[call.scope, call.model_id].add(Paid(record.usage, money))

    def of(self, scope: str, model: str) -> Tally:
        """The answers of one model under one namespace."""
        return self._groups.get((scope, model), Tally())

    @property
    def total(self) -> Tally:
        """All of them."""
        return Tally.total(self._groups.values())
