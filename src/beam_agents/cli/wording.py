"""Numbers as people read them."""

from __future__ import annotations

from decimal import Decimal

__all__ = ["counted", "duration", "money"]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 call`, `2 calls`, `1,234 calls`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(ms: float) -> str:
    """`350 ms`, `4.2 s`, `3 min 5 s`."""
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(round(ms / 1_000), 60)
    return f"{minutes} min {seconds} s"


def money(amount: Decimal, currency: str = "USD") -> str:
    """`$0.0021`, `1.20 EUR`: two significant digits below a cent, cents above."""
    if amount == 0:
        shown = "0.00"
    elif abs(amount) < Decimal("0.01"):
        shown = f"{amount:.{1 - amount.adjusted()}f}"
    else:
        shown = f"{amount:,.2f}" if abs(amount) >= 1 else f"{amount:.4f}"
    return f"${shown}" if currency == "USD" else f"{shown} {currency}"
