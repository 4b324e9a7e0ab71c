"""What happened when, in a bounded number of slices of equal width."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, Self, TypeVar

__all__ = ["Mergeable", "Timeline"]

_FIRST_WIDTH_MS: Final = 1_000


class Mergeable(Protocol):
    """A content of a slice that can take in its neighbour's."""

    def merge(self, other: Self, /) -> None: ...


_S = TypeVar("_S", bound=Mergeable)
_EARLIEST_MS = -(2**63)


class Timeline(Generic[_S]):
    """Slices of one width, at most `at_most` of them; the width doubles when the time they span outgrows it.

    Events may come in any order. A time far outside of the others costs resolution, never memory.
    """

    def __init__(self, new: Callable[[], _S], *, at_most: int = 240) -> None:
        self.width_ms = _FIRST_WIDTH_MS
        self._new = new
        self._at_most = at_most
        self._slices: dict[int, _S] = {}
        self._first = self._last = 0

    def at(self, time_ms: int) -> _S:
        """The slice that `time_ms` falls into."""
        index = time_ms // self.width_ms
        found = self._slices.get(index)
        if found is not None:
            return found
        self._first, self._last = (min(self._first, index), max(self._last, index)) if self._slices else (index, index)
        while self._last - self._first >= self._at_most:
            self._widen()
            index //= 2
        return self._slices.setdefault(index, self._new())

    def __iter__(self) -> Iterator[tuple[int, _S]]:
        """Start and content of each slice that has one, by time. A start is a number of 64 bits."""
        return ((max(index * self.width_ms, _EARLIEST_MS), self._slices[index]) for index in sorted(self._slices))

    def __len__(self) -> int:
        return len(self._slices)

    def _widen(self) -> None:
        self.width_ms *= 2
        self._first, self._last = self._first // 2, self._last // 2
        before, self._slices = self._slices, {}
        for index, content in before.items():
            into = self._slices.setdefault(index // 2, content)
            if into is not content:
                into.merge(content)
