"""Limits on what a process sends to one endpoint: at once, by the minute, and again."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass
from random import Random

from beam_agents.activation.pacing import AdaptiveLimit, Pause, RateBucket, RetryBudget
from beam_agents.activation.under_way import UnderWay
from beam_agents.errors import ProviderTimeout, RateLimitError, ServerError
from beam_agents.model import CircuitBreaker, CircuitState
from beam_agents.ports import Clock, Rng, Sleep
from beam_agents.values import TokenUsage

__all__ = ["EndpointLoad", "LoadLimits"]

_log = logging.getLogger(__name__)

_LONGEST_NAP_MS = 1_000.0
_OVERLOADED = (429, 503, 529)


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """What may be sent to an endpoint from one process; `None` leaves a limit away."""

    concurrency: int
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    retry_budget: float | None = None


class EndpointLoad:
    """A `LoadControl`: first come, first served. For one event loop.

    Fewer requests than `concurrency` are let through at once while the endpoint answers 429, 503 or 529, times
    out, or takes much longer than it did; see `AdaptiveLimit`. After its
    circuit was open it begins with one. A 429, or any failure with a `Retry-After`, rests the endpoint for all.
    """

    def __init__(
        self,
        limits: LoadLimits,
        now_ms: Clock,
        sleep: Sleep,
        breaker: CircuitBreaker | None = None,
        rng: Rng | None = None,
        under_way: UnderWay | None = None,
    ) -> None:
        self.limits = limits
        self.now_ms = now_ms
        self._sleep = sleep
        self._breaker = breaker
        self._under_way = under_way or UnderWay()
        self._pause = Pause(now_ms, rng or Random())
        self.adaptive = AdaptiveLimit(limits.concurrency)
        self._requests = RateBucket.per_minute(limits.requests_per_minute, now_ms)
        self._tokens = RateBucket.per_minute(limits.tokens_per_minute, now_ms)
        self._retries = None if limits.retry_budget is None else RetryBudget(limits.retry_budget, now_ms)
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self._throttled = _Throttled(now_ms)
        self._tokens_a_call = 0.0
        self.in_use = 0

    def also_for(self, endpoint: str, limits: LoadLimits) -> None:
        """Another configuration names the endpoint too: the larger concurrency holds, and the first rates."""
        self.adaptive.raise_cap(limits.concurrency)
        if (limits.requests_per_minute, limits.tokens_per_minute, limits.retry_budget) != (
            self.limits.requests_per_minute,
            self.limits.tokens_per_minute,
            self.limits.retry_budget,
        ):
            _log.warning("endpoint=%s keeps the limits %s; %s ignored", endpoint, self.limits, limits)

    def slot(self) -> _Slot:
        """See `LoadControl.slot`."""
        return _Slot(self)

    async def enter(self) -> float:
        """Wait until one more request may be sent, and hold a place for it until `leave`; gives its expected tokens."""
        if self._breaker is not None and self._breaker.state is not CircuitState.CLOSED:
            self.adaptive.restart()  # the breaker lets one through, and refuses the others at once
        elif self._turn.locked() or not self._has_room():
            with self._throttled:
                await self._until_room()
        await self._under_way.begin()
        self._take()
        return self._tokens_a_call

    def leave(self) -> None:
        """Give the place back."""
        self.in_use -= 1
        self._freed.set()
        self._under_way.end()

    def may_retry(self) -> bool:
        """See `LoadControl.may_retry`."""
        return self._retries is None or self._retries.take()

    def take_throttled_ms(self) -> int:
        """For how long at least one request was held back, since it was last asked."""
        return self._throttled.take_ms()

    def sent(self, estimated: float, usage: TokenUsage | None) -> None:
        """A request was sent that was expected to take `estimated` tokens; `usage` is what it told to have taken."""
        tokens = 0 if usage is None else usage.total_tokens
        if usage is not None:
            self._tokens_a_call += (tokens - self._tokens_a_call) / 8 if self._tokens_a_call else tokens
        if self._tokens is not None:
            self._tokens.take(tokens - estimated)
        if self._retries is not None:
            self._retries.earn()

    def not_sent(self, estimated: float) -> None:
        """Nothing was sent, so that nothing of the rates is used up."""
        if self._requests is not None:
            self._requests.take(-1)
        if self._tokens is not None:
            self._tokens.take(-estimated)

    def congested(self, error: BaseException) -> None:
        """Send less at once when `error` says that the endpoint has too much to do."""
        status = getattr(error, "status", None)
        if isinstance(error, (RateLimitError, ProviderTimeout)) or (
            isinstance(error, ServerError) and status in _OVERLOADED
        ):
            self.adaptive.failed(self.now_ms())
        asked_ms = getattr(error, "retry_after_ms", None)
        if isinstance(error, RateLimitError) or (isinstance(error, ServerError) and asked_ms is not None):
            self._pause.begin(asked_ms)

    def served(self, since_ms: int) -> None:
        """A request that began at `since_ms` was answered just now."""
        now_ms = self.now_ms()
        self._pause.served()
        self.adaptive.served(now_ms, now_ms - since_ms, self.in_use)

    async def _until_room(self) -> None:
        async with self._turn:
            while True:
                wait_ms = self._rate_wait_ms()  # read once: it may end between two readings of the clock
                if wait_ms:
                    await self._sleep(min(wait_ms, _LONGEST_NAP_MS))
                elif self.in_use < self.adaptive.limit:
                    return
                else:
                    self._freed.clear()
                    await self._freed.wait()

    def _has_room(self) -> bool:
        return self.in_use < self.adaptive.limit and not self._rate_wait_ms()

    def _rate_wait_ms(self) -> float:
        buckets = (bucket.wait_ms() for bucket in (self._requests, self._tokens) if bucket is not None)
        return max(self._pause.wait_ms(), *buckets, 0.0)

    def _take(self) -> None:
        self.in_use += 1
        if self._requests is not None:
            self._requests.take(1)
        if self._tokens is not None:
            self._tokens.take(self._tokens_a_call)


class _Slot:
    """One request's place, while its block runs."""

    __slots__ = ("_estimated", "_load", "_sent", "_since_ms")

    def __init__(self, load: EndpointLoad) -> None:
        self._load = load
        self._sent = False

    async def __aenter__(self) -> _Slot:
        self._estimated = await self._load.enter()
        self._since_ms = self._load.now_ms()
        return self

    async def __aexit__(self, *exit_info: object) -> None:
        if not self._sent:
            self._load.not_sent(self._estimated)
        self._load.leave()

    def answered(self, usage: TokenUsage | None) -> None:
        self._load.served(self._since_ms)
        self._end(usage)

    def failed(self, error: BaseException) -> None:
        self._load.congested(error)
        self._end(None)

    def _end(self, usage: TokenUsage | None) -> None:
        self._sent = True
        self._load.sent(self._estimated, usage)


class _Throttled:
    """The time during which at least one request is held back. Entered on the loop, taken from any thread."""

    def __init__(self, now_ms: Clock) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._held_back = 0
        self._since_ms = 0
        self._sum_ms = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._held_back:
                self._since_ms = self._now_ms()
            self._held_back += 1

    def __exit__(self, *exit_info: object) -> None:
        with self._lock:
            self._held_back -= 1
            if not self._held_back:
                self._sum_ms += max(0, self._now_ms() - self._since_ms)

    def take_ms(self) -> int:
        with self._lock:
            now_ms = self._now_ms()
            if self._held_back:
                self._sum_ms += max(0, now_ms - self._since_ms)
                self._since_ms = now_ms
            taken, self._sum_ms = self._sum_ms, 0
            return taken
