"""How many activations a process works on, and how many it takes in."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Protocol

__all__ = ["Admission", "Slots", "UnderWay"]

_KEYS_PER_SLOT = 2
_EVENTS_PER_SLOT = 64


class Slots:
    """At most `limit` activations at work at once, first come, first served. For one event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def close(self) -> None:
        """Let nothing more begin: whoever has no slot yet waits until it is cancelled. From any thread."""
        self._closed = True

    async def __aenter__(self) -> Slots:
        if self.in_use < self.limit and not self._closed:
            self.in_use += 1
            return self
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._hand_over()
            raise
        return self

    async def __aexit__(self, *exit_info: object) -> None:
        self._hand_over()

    def _hand_over(self) -> None:
        """Give the slot to the next that still waits, or back."""
        while self._queue and not self._closed:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_use -= 1


class UnderWay(Protocol):
    """A key's line of events; `under_way` counts those that were taken in and are not through."""

    under_way: int


class Admission:
    """Back-pressure: holds back the threads that bring events while too much is under way in the process.

    Two bounds, so that a key with thousands of events does not keep the others out: keys with work, twice
    the slots; events that wait, 64 times the slots.
    """

    def __init__(self, slots: int) -> None:
        self._most_keys = slots * _KEYS_PER_SLOT
        self._most_events = slots * _EVENTS_PER_SLOT
        self._changed = threading.Condition()
        self._held_back = 0
        self.keys = 0
        self.events = 0

    def wait(self, timeout_s: float) -> bool:
        """Wait for room, at most `timeout_s` seconds; whether there is some."""
        if self._has_room():  # read without the lock: others enter between this and the caller's own entering anyway
            return True
        with self._changed:
            self._held_back += 1
            try:
                return self._changed.wait_for(self._has_room, timeout_s)
            finally:
                self._held_back -= 1

    def room(self) -> int:
        """How many more keys are let in."""
        return max(0, self._most_keys - self.keys) if self.events < self._most_events else 0

    def enter(self, line: UnderWay) -> None:
        """An event of `line` is taken in."""
        with self._changed:
            self.events += 1
            self.keys += line.under_way == 0
            line.under_way += 1

    def leave(self, line: UnderWay, events: int = 1) -> None:
        """`events` of `line` are through, or dropped."""
        with self._changed:
            line.under_way -= events
            self.events -= events
            self.keys -= events > 0 and line.under_way == 0
            if self._held_back:
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return self.keys < self._most_keys and self.events < self._most_events
