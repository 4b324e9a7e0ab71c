"""Errors, dead letters and schema failures by kind, each with one example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Kinds", "Problem"]

_MOST_KINDS: Final = 200
_OTHER: Final = "(other kinds)"


@dataclass(slots=True)
class Problem:
    """How often one kind of failure happened, and its first example as field names and texts."""

    kind: str
    count: int = 0
    example: Mapping[str, str] = field(default_factory=dict)


class Kinds:
    """Counts by kind. Beyond 200 kinds, further ones are counted together as `(other kinds)`."""

    def __init__(self) -> None:
        self._kinds: dict[str, Problem] = {}

    def add(self, kind: str, example: Mapping[str, str]) -> None:
        """Count one failure; its example is kept if it is the first of its kind."""
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            kind = _OTHER
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = Problem(kind, example={name: text for name, text in example.items() if text})
        found.count += 1

    def by_count(self) -> list[Problem]:
        """Most frequent first."""
        return sorted(self._kinds.values(), key=lambda problem: (-problem.count, problem.kind))

    def total(self) -> int:
        """How many failures were counted."""
        return sum(problem.count for problem in self._kinds.values())
