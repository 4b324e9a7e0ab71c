"""Waiting while a circuit is open, instead of failing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from beam_agents.errors import CircuitOpenError
from beam_agents.model import CircuitBreaker, CircuitState
from beam_agents.model.retry import is_retryable
from beam_agents.ports import Clock, Rng, Sleep

__all__ = ["CircuitGate"]

_LOOK_MS = 50.0
_SPREAD = 0.25
_REST_MS = 200


class CircuitGate:
    """Queues callers while the circuit of one endpoint is open, and lets one at a time try. For one event loop."""

    def __init__(self, breaker: CircuitBreaker, now_ms: Clock, sleep: Sleep, rng: Rng | None = None) -> None:
        self._breaker = breaker
        self._rng = rng or Random()
        self._now_ms = now_ms
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._failed_at_ms: int | None = None

    def holds_back(self, error: Exception) -> bool:
        """Whether `error` is of the kind that waiting mends: the circuit is open, and that is why."""
        if isinstance(error, CircuitOpenError):
            return True
        return is_retryable(error) and self._breaker.state is not CircuitState.CLOSED

    @asynccontextmanager
    async def passage(self, deadline_ms: float) -> AsyncIterator[None]:
        """A block that may send a request: the circuit is closed, or a trial is due and it is this caller's turn.

        First come, first served. A trial comes up to a quarter of the cooldown later than it might, so that the
        trials of many workers do not come together; and 0.2 s after one that failed at the earliest, whatever the
        cooldown. Raises `CircuitOpenError` when none is due before `deadline_ms`.
        """
        await self._turn.acquire()
        try:
            await self._until_permitted(deadline_ms)
            on_trial = self._breaker.state is not CircuitState.CLOSED
        except BaseException:
            self._turn.release()
            raise
        if not on_trial:
            self._turn.release()
        try:
            yield
            if on_trial and self._breaker.state is not CircuitState.CLOSED:
                self._failed_at_ms = self._now_ms()
        finally:
            if on_trial:
                self._turn.release()

    async def _until_permitted(self, deadline_ms: float) -> None:
        waited = False
        while self._breaker.refuses(self._now_ms()) or self._failed_just_now():
            waited = True
            await self._rest(_LOOK_MS, deadline_ms)
        if waited and self._breaker.state is not CircuitState.CLOSED:
            await self._rest(self._rng.uniform(0, self._breaker.cooldown_ms * _SPREAD), deadline_ms)

    def _failed_just_now(self) -> bool:
        if self._failed_at_ms is None or self._breaker.state is CircuitState.CLOSED:
            return False
        return 0 <= self._now_ms() - self._failed_at_ms < _REST_MS

    async def _rest(self, ms: float, deadline_ms: float) -> None:
        left_ms = deadline_ms - self._now_ms()
        if left_ms <= 0:
            raise CircuitOpenError(self._breaker.endpoint)
        await self._sleep(min(ms, left_ms))
