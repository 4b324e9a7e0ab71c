"""When to look again at a key whose activation is under way."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Polling"]

_LONGEST_MS = 1_000
_SHORTEST_FOR_ROOM_MS = 100
_SHARE = 4
_UP, _DOWN = 1.15, 1.05


@dataclass(slots=True)
class _Watch:
    since_ms: int
    next_ms: int


class Polling:
    """One timer chain for each key with work, on a common grid.

    A key is looked at when three activations in four have ended, as far as earlier ones tell, and again after
    each quarter of the time that it has waited, at most every second. So most activations cost one timer, and a
    long one costs few and is seen at most a quarter later. What it keeps is lost with the process; the timers
    are not, so a key may be looked at once too often after a restart.

    Args:
        grid_ms: timers are set to multiples of it. A coarse grid has an engine look at several keys at once.
    """

    def __init__(self, grid_ms: int = 20) -> None:
        self._grid_ms = grid_ms
        self._watches: dict[bytes, _Watch] = {}
        self._usual_ms = float(grid_ms)

    def learn(self, took_ms: int) -> None:
        """An activation took so long. Three steps down weigh as much as one up: that finds the upper quartile."""
        factor = _UP if took_ms > self._usual_ms else 1 / _DOWN
        self._usual_ms = min(max(self._usual_ms * factor, self._grid_ms), _LONGEST_MS)

    def due_ms(self, key: bytes) -> int:
        """When the key, which has work, is looked at next."""
        return self._watches[key].next_ms

    def renew(self, key: bytes, now_ms: int, *, progressed: bool) -> int:
        """The time of the key's next timer. `progressed`: another event is the key's first now."""
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _Watch(now_ms, 0)
        if progressed:
            watch.since_ms = now_ms
        watch.next_ms = self._after(now_ms, now_ms - watch.since_ms)
        return watch.next_ms

    def room_ms(self, now_ms: int) -> int:
        """When to look for room next: about as often as activations end."""
        return self._on_grid(now_ms + min(max(self._usual_ms / 2, _SHORTEST_FOR_ROOM_MS), _LONGEST_MS))

    def end(self, key: bytes) -> None:
        """The key has no work any more."""
        self._watches.pop(key, None)

    def _after(self, now_ms: int, waited_ms: int) -> int:
        """On the grid, never sooner than a grid's step."""
        interval_ms = max(self._usual_ms - waited_ms, waited_ms / _SHARE, self._grid_ms)
        return self._on_grid(now_ms + min(interval_ms, _LONGEST_MS))

    def _on_grid(self, due_ms: float) -> int:
        return -(-int(due_ms) // self._grid_ms) * self._grid_ms
