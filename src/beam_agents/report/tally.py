"""Sums of requests, tokens and money that keep unknown apart from zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from beam_agents.values import TokenUsage

__all__ = ["Paid", "Tally"]


@dataclass(frozen=True, slots=True)
class Paid:
    """Tokens and money of one answer; each `None` where it is not known."""

    usage: TokenUsage | None = None
    money: Decimal | None = None


@dataclass(slots=True)
class Tally:
    """An exact sum.

    Attributes:
        requests: how many were added.
        input_tokens, output_tokens, cached_tokens, reasoning_tokens: sums of what is known.
        money: sum of what has a price.
        without_usage: requests whose tokens are unknown.
        without_price: requests with tokens but no known price.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    money: Decimal = Decimal(0)
    without_usage: int = 0
    without_price: int = 0

    @classmethod
    def total(cls, parts: Iterable[Tally]) -> Tally:
        """The sum of `parts`."""
        whole = cls()
        for part in parts:
            for name in cls.__slots__:
                setattr(whole, name, getattr(whole, name) + getattr(part, name))
        return whole

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def add(self, paid: Paid) -> None:
        """Add one request."""
        self._count(paid, 1)

    def remove(self, paid: Paid) -> None:
        """Take one request out again."""
        self._count(paid, -1)

    def _count(self, paid: Paid, sign: int) -> None:
        self.requests += sign
        if paid.usage is None:
            self.without_usage += sign
            return
        self.input_tokens += sign * paid.usage.prompt_tokens
        self.output_tokens += sign * paid.usage.completion_tokens
        self.cached_tokens += sign * (paid.usage.cached_tokens or 0)
        self.reasoning_tokens += sign * (paid.usage.reasoning_tokens or 0)
        if paid.money is None:
            self.without_price += sign
        else:
            self.money += sign * paid.money
