"""When to look again at a key whose activation is under way."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Polling"]

_GRID_MS = 100
_LONGEST_MS = 1_000
_SHARE = 4


@dataclass(slots=True)
class _Watch:
    since_ms: int
    next_ms: int


class Polling:
    """One timer chain for each key with work, on a common grid.

    A key that has waited for a time `t` is looked at again after a quarter of `t`, between 100 ms and 1 s:
    a long call costs few timers and adds at most a quarter to its latency. What it keeps is lost with the
    process; the timers are not, so a key may be looked at once too often after a restart.
    """

    def __init__(self) -> None:
        self._watches: dict[bytes, _Watch] = {}

    def is_superseded(self, key: bytes, fired_ms: int) -> bool:
        """Whether a later timer of this key is set, so that the one of `fired_ms` has nothing to do."""
        watch = self._watches.get(key)
        return watch is not None and watch.next_ms > fired_ms

    def begin(self, key: bytes, now_ms: int) -> int | None:
        """The time of the key's first timer, or `None` when one is set already."""
        if key in self._watches:
            return None
        watch = self._watches[key] = _Watch(now_ms, _on_grid(now_ms + _GRID_MS))
        return watch.next_ms

    def renew(self, key: bytes, now_ms: int, *, progressed: bool) -> int:
        """The time of the key's next timer. `progressed`: another event is the key's first now."""
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _Watch(now_ms, 0)
        if progressed:
            watch.since_ms = now_ms
        interval_ms = min(max((now_ms - watch.since_ms) // _SHARE, _GRID_MS), _LONGEST_MS)
        watch.next_ms = _on_grid(now_ms + interval_ms)
        return watch.next_ms

    def end(self, key: bytes) -> None:
        """The key has no work any more."""
        self._watches.pop(key, None)


def _on_grid(ms: int) -> int:
    return -(-ms // _GRID_MS) * _GRID_MS
