"""Equal work in flight at once is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["SingleFlight"]

_T = TypeVar("_T")


class _Flight(Generic[_T]):
    __slots__ = ("ended", "error", "landed")

    def __init__(self) -> None:
        self.ended: asyncio.Event | None = None  # made by the first follower
        self.landed: tuple[_T] | None = None
        self.error: Exception | None = None


class SingleFlight(Generic[_T]):
    """Shares one run of `lead` among all callers that come with the same key while it is under way."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight[_T]] = {}

    async def join(self, key: str, lead: Callable[[], Awaitable[_T]]) -> tuple[_T, bool]:
        """The result for `key`, and whether another caller led.

        Followers get the leader's error. A cancelled leader hands over to one of them; a follower's own
        cancellation touches nobody else.
        """
        while (flight := self._flights.get(key)) is not None:
            if flight.ended is None:
                flight.ended = asyncio.Event()
            await flight.ended.wait()
            if flight.error is not None:
                raise flight.error
            if flight.landed is not None:
                return flight.landed[0], True
        flight = self._flights[key] = _Flight()
        try:
            result = await lead()
            flight.landed = (result,)
            return result, False
        except Exception as error:
            flight.error = error
            raise
        finally:
            del self._flights[key]
            if flight.ended is not None:
                flight.ended.set()
