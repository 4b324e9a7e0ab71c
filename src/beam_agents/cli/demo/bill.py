"""What each run of the demo cost, as the proxy in front of the model counted it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from rich.table import Table

from beam_agents.cli.local.proxy import WireCount
from beam_agents.report.money import ModelRate, PriceBook
from beam_agents.report.words import duration_text, money_text
from beam_agents.values import TokenUsage

__all__ = ["BillRow", "Prices", "bill_table", "faults_text"]

_STAND_IN = "gpt-4o-mini"


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens, and where they come from."""

    rate: ModelRate | None
    source: str

    @classmethod
    def given(cls, input_price: float | None, output_price: float | None) -> Prices:
        """The given prices, or else those of a well-known hosted model."""
        if input_price is not None or output_price is not None:
            rate = ModelRate(Decimal(str(input_price or 0)), Decimal(str(output_price or 0)))
            return cls(rate, f"at the prices given: ${rate.input} in, ${rate.output} out for a million tokens")
        book, now_ms = PriceBook(), int(datetime.now(UTC).timestamp() * 1000)
        million = TokenUsage(1_000_000, 0, 1_000_000), TokenUsage(0, 1_000_000, 1_000_000)
        found = [
            book.price(one, model=_STAND_IN, provider="openai", endpoint="api.openai.com", at_ms=now_ms)
            for one in million
        ]
        if found[0] is None or found[1] is None:
            return cls(None, "no price is known; give prices with --price-in and --price-out")
        rate = ModelRate(found[0], found[1])
        return cls(
            rate,
            f"what these tokens would cost at {_STAND_IN}'s price (${rate.input:.2f} in, ${rate.output:.2f} out for a "
            f"million; {book.source}): a local model costs nothing. --price-in and --price-out set other prices",
        )

    def of(self, tokens_in: int, tokens_out: int) -> str:
        """The money for these tokens."""
        if self.rate is None:
            return "unknown"
        return money_text(self.rate.price(TokenUsage(tokens_in, tokens_out, tokens_in + tokens_out)))


@dataclass(frozen=True, slots=True)
class BillRow:
    """One line of the bill. `answers` are new answers in the output file; `computed` rows were not run."""

    what: str
    requests: int
    input_tokens: int
    output_tokens: int
    note: str = ""
    took_ms: float | None = None
    computed: bool = False

    @classmethod
    def of(cls, what: str, count: WireCount, *, took_ms: float | None = None, note: str = "") -> BillRow:
        """The line for what the proxy counted."""
        return cls(what, count.requests, count.input_tokens, count.output_tokens, note, took_ms)


def bill_table(rows: Sequence[BillRow], prices: Prices) -> Table:
    """The bill."""
    table = Table(
        title="What each run cost, counted by the proxy in front of the model",
        caption=f"A computed row was not run. Money is {prices.source}.",
        title_justify="left",
        caption_justify="left",
        title_style="bold",
    )
    table.add_column("run", no_wrap=True)
    for name in ("requests", "tokens", "money", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_row(
            row.what,
            f"{row.requests:,}",
            f"{row.input_tokens + row.output_tokens:,}",
            prices.of(row.input_tokens, row.output_tokens),
            "" if row.took_ms is None else duration_text(row.took_ms),
            row.note,
            style="dim" if row.computed else "",
        )
    return table


def faults_text(count: WireCount) -> str:
    """The injected faults in words."""
    words = {
        "rate_limit": "429 with Retry-After",
        "unavailable": "503",
        "reset": "connection reset",
        "lost_answer": "answer lost on the way",
        "stall": "stalled answer",
    }
    return ", ".join(f"{number:,} × {words[fault]}" for fault, number in sorted(count.faults.items()))
