"""The account of requests: each in exactly one class of spend, over all events and dead letters.

Exact: every count, every sum of tokens, every sum of money. Memory: two 64-bit digests for a billed request,
one small record for any other. Two different requests are mistaken for one with a probability below one in ten
million at a million requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from beam_agents.report.call_facts import CallFacts
from beam_agents.report.money import PriceBook
from beam_agents.report.tally import Paid, Tally
from beam_agents.values import TokenUsage

__all__ = ["Account", "SpendClass"]


class SpendClass(StrEnum):
    """What became of one request on the wire."""

    BILLED = "billed"
    RECOVERED = "recovered"
    DISCARDED = "discarded"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"


_RANK = {
    SpendClass.BILLED: 4,
    SpendClass.RECOVERED: 3,
    SpendClass.DISCARDED: 2,
    SpendClass.IN_DOUBT: 1,
    SpendClass.FAILED: 0,
}
_OF_OUTCOME = {"failed": SpendClass.FAILED, "in_doubt": SpendClass.IN_DOUBT, "answered": SpendClass.DISCARDED}


@dataclass(frozen=True, slots=True)
class _Booked:
    spend: SpendClass
    model: str
    paid: Paid


class Account:
    """Sums requests, tokens and money by class and model, and what stored answers saved.

    A request counts once, however often it is told of: `billed` beats `recovered` beats `discarded`, and each
    of them beats a request without an answer.
    """

    def __init__(self, prices: PriceBook | None = None) -> None:
        self.prices = prices or PriceBook()
        self.calls = 0
        self.saved: dict[str, Tally] = {}
        self._tallies: dict[tuple[SpendClass, str], Tally] = {}
        self._billed: set[int] = set()
        self._billed_events: set[int] = set()
        self._others: dict[int, _Booked] = {}

    def add_call(self, call: CallFacts, *, committed: bool = True) -> Paid:
        """Book the requests that `call` tells of; `committed` is false for the calls of a dead letter.

        Returns what the call's answer costs, whoever paid for it.
        """
        self.calls += 1
        for logged in call.log:
            if logged.attempt_id != call.attempt_id:
                spend = _OF_OUTCOME.get(logged.outcome)
                self.add_request(call.trace_id, logged.attempt_id, spend, call.model, self.paid_for(call, logged.usage))
        paid = self.paid_for(call, call.usage)
        if call.billed and committed:
            self._bill(call, paid)
        elif call.billed:
            self.add_request(
                call.trace_id, call.attempt_id or repr(call.span_id), SpendClass.DISCARDED, call.model, paid
            )
        elif call.replay == "journal" and call.attempt_id:
            found = SpendClass.RECOVERED if committed else SpendClass.DISCARDED
            self.add_request(call.trace_id, call.attempt_id, found, call.model, paid)
        if call.stored:
            self.saved.setdefault(call.replay, Tally()).add(paid)
        return paid

    def add_set_aside(self, activation: CallFacts) -> None:
        """Book the answered requests of earlier runs that an ACTIVATION event says were given up."""
        for logged in activation.log:
            paid = self.paid_for(replace(activation, model=logged.model), logged.usage)
            self.add_request(activation.trace_id, logged.attempt_id, SpendClass.DISCARDED, logged.model, paid)

    def add_request(
        self, trace_id: bytes, attempt_id: str, spend: SpendClass | None, model: str = "", paid: Paid | None = None
    ) -> None:
        """Book one request that is not billed by a committed activation. `None` as a class books nothing."""
        identity = hash((trace_id, attempt_id))
        if spend is None or identity in self._billed:
            return
        known = self._others.get(identity)
        if known is not None and _RANK[known.spend] >= _RANK[spend]:
            return
        paid = paid or (known.paid if known else Paid())
        model = model or (known.model if known else "")
        self._remove(known)
        self._others[identity] = _Booked(spend, model, paid)
        self._tally(spend, model).add(paid)

    def knows(self, trace_id: bytes, attempt_id: str) -> bool:
        """Whether this request was told of before."""
        identity = hash((trace_id, attempt_id))
        return identity in self._others or identity in self._billed

    def of_class(self, spend: SpendClass) -> Tally:
        """The sum over all models."""
        return Tally.total(tally for (of, _), tally in self._tallies.items() if of is spend)

    def of_model(self, model: str) -> Iterator[tuple[SpendClass, Tally]]:
        """The sums of one model by class."""
        return ((spend, tally) for (spend, of), tally in self._tallies.items() if of == model)

    @property
    def models(self) -> list[str]:
        """Every model with a request, by name."""
        return sorted({model for _, model in self._tallies})

    @property
    def spent(self) -> Tally:
        """Everything that the endpoints answered, and so charge for: billed, recovered and discarded."""
        answered = (SpendClass.BILLED, SpendClass.RECOVERED, SpendClass.DISCARDED)
        return Tally.total(self.of_class(spend) for spend in answered)

    @property
    def saved_total(self) -> Tally:
        """What the answers that came from a store would have cost."""
        return Tally.total(self.saved.values())

    @property
    def without_replay(self) -> Decimal:
        """The known money spent and saved together: the bill without stored answers."""
        return self.spent.money + self.saved_total.money

    def paid_for(self, call: CallFacts, usage: TokenUsage | None) -> Paid:
        """What an answer to `call` costs; unknown tokens and unknown prices stay unknown."""
        if usage is None:
            return Paid()
        for model in filter(None, (call.response_model, call.model)):
            money = self.prices.price(
                usage, model=model, provider=call.provider, endpoint=call.endpoint, at_ms=call.end_ms
            )
            if money is not None:
                return Paid(usage, money)
        return Paid(usage)

    def _bill(self, call: CallFacts, paid: Paid) -> None:
        identity = hash((call.trace_id, call.attempt_id or call.span_id))
        told = hash((identity, call.start_ms))
        if told in self._billed_events:
            return
        self._billed_events.add(told)
        self._billed.add(identity)
        self._remove(self._others.pop(identity, None))
        self._tally(SpendClass.BILLED, call.model).add(paid)

    def _remove(self, known: _Booked | None) -> None:
        if known is not None:
            self._tally(known.spend, known.model).remove(known.paid)

    def _tally(self, spend: SpendClass, model: str) -> Tally:
        return self._tallies.setdefault((spend, model), Tally())
