"""Options with a fixed set of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from beam_agents.cli.complaint import Complaint

__all__ = ["one_of"]

_T = TypeVar("_T", bound=str)


def one_of(option: str, value: str | None, allowed: Sequence[_T]) -> _T | None:
    """`value` as one of `allowed`, or `None` for `None`. Raises `Complaint` for any other."""
    if value is None:
        return None
    for one in allowed:
        if one == value:
            return one
    raise Complaint(f"{option} must be one of {', '.join(allowed)}, not {value!r}")
