"""The requests and steps under way on a loop, so that its end can wait for what they bring."""

from __future__ import annotations

import asyncio

__all__ = ["UnderWay"]


class UnderWay:
    """An asynchronous context manager around each of them. For the loop's own thread.

    Once `closing` is set, no more are begun: they wait until they are cancelled.
    """

    __slots__ = ("_count", "_none_left", "closing")

    def __init__(self) -> None:
        self._count = 0
        self.closing = asyncio.Event()
        self._none_left = asyncio.Event()

    async def begin(self) -> None:
        """One more is about to begin."""
        if self.closing.is_set():
            await asyncio.get_running_loop().create_future()
        self._count += 1

    def end(self) -> None:
        """One of them is over."""
        self._count -= 1
        if not self._count:
            self._none_left.set()

    async def __aenter__(self) -> None:
        await self.begin()

    async def __aexit__(self, *exit_info: object) -> None:
        self.end()

    async def finish(self) -> None:
        """Begin no more, and wait until none is left."""
        self.closing.set()
        while self._count:
            self._none_left.clear()
            await self._none_left.wait()
