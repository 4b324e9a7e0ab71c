"""Numbers, durations, money and keys as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

__all__ = ["clock_text", "duration_text", "key_text", "money_text", "number_text", "share_text"]

_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}


def key_text(key: bytes) -> str:
    """An entity key: its text, or `0x` and hex digits where it is none."""
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


def number_text(value: int) -> str:
    """A whole number with thousands apart: `12,345`."""
    return f"{value:,}"


def money_text(amount: Decimal, currency: str = "USD") -> str:
    """An amount with its currency; small ones with two significant digits, so that none reads as nothing."""
    sign = _SIGNS.get(currency)
    places = 2 if amount == 0 or abs(amount) >= Decimal("0.1") else 1 - amount.adjusted()
    digits = f"{amount:,.{places}f}"
    return f"{sign}{digits}" if sign else f"{digits} {currency}"


def duration_text(ms: float | None) -> str:
    """A duration: `12 ms`, `3.4 s`, `5 min 12 s`, `2 h 3 min`; a dash where there is none."""
    if ms is None:
        return "–"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def share_text(part: float | Decimal, whole: float | Decimal) -> str:
    """`part` of `whole` as a percentage; a dash where there is no whole."""
    return f"{float(part) / float(whole):.0%}" if whole else "–"


def clock_text(ms: int | None) -> str:
    """A moment, UTC."""
    if ms is None:
        return "–"
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
