"""Numbers with their nouns."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 call`, `2 calls`, `1,234 calls`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
