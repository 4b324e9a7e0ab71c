"""When to try again, and how long to wait first."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ldexp
from sys import float_info
from typing import TypeGuard

from beam_agents.errors import ProviderError, ProviderTimeout, RateLimitError, ServerError
from beam_agents.ports import Rng

__all__ = ["RetryPolicy", "is_retryable"]


def is_retryable(error: BaseException) -> TypeGuard[ProviderError]:
    """Whether `error` is of one of the three retryable families. Decided by type alone."""
    return isinstance(error, (RateLimitError, ServerError, ProviderTimeout))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter under a cap, the endpoint's own wish as a floor.

    Attributes:
        max_attempts: requests on the wire for one call, at most; at least 1.
        base_ms: pre-jitter delay before the second request.
        max_ms: largest pre-jitter delay. A `Retry-After` above it is still obeyed.
        max_elapsed_ms: no wait may end later than this after the call began; `None` for no limit.
        retry_after_spread_ms: up to this much is added to a `Retry-After`, drawn from the rng, so that
            callers that got the same answer do not return in the same instant.

    Raises:
        ValueError: for anything but finite, sensible numbers.
    """

    max_attempts: int
    base_ms: float
    max_ms: float
    max_elapsed_ms: float | None = field(default=None, kw_only=True)
    retry_after_spread_ms: float = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        attempts = self.max_attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise ValueError(f"max_attempts must be an int of at least 1, not {attempts!r}")
        _require_duration("base_ms", self.base_ms)
        _require_duration("max_ms", self.max_ms)
        _require_duration("retry_after_spread_ms", self.retry_after_spread_ms)
        if self.max_elapsed_ms is not None:
            _require_duration("max_elapsed_ms", self.max_elapsed_ms)
        if self.max_ms < self.base_ms:
            raise ValueError(f"max_ms must not be below base_ms, but {self.max_ms!r} < {self.base_ms!r}")

    def pre_jitter_ms(self, attempt: int) -> float:
        """`min(base_ms * 2 ** (attempt - 1), max_ms)` after the `attempt`-th request, counted from 1."""
        try:
            return min(ldexp(self.base_ms, attempt - 1), self.max_ms)
        except OverflowError:
            return self.max_ms

    def delay_ms(self, attempt: int, error: ProviderError, rng: Rng) -> float:
        """The wait after the `attempt`-th request failed with `error`: jittered, never below its floor."""
        delay = rng.uniform(0, self.pre_jitter_ms(attempt))
        floor = error.retry_after_ms
        if floor is None or not 0 < floor <= float_info.max:
            return delay
        if self.retry_after_spread_ms:
            floor += rng.uniform(0, self.retry_after_spread_ms)
        return max(delay, floor)


def _require_duration(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= float_info.max:
        raise ValueError(f"{name} must be a finite number of milliseconds, not negative, but is {value!r}")
