"""A circuit breaker per endpoint, local to the worker process."""

from __future__ import annotations

import logging
import threading
from enum import Enum
from types import TracebackType

from beam_agents.errors import CircuitOpenError
from beam_agents.notices import notices

__all__ = ["CircuitBreaker", "CircuitState", "Permit", "circuit_breaker_for", "reset_circuit_breakers"]

_log = logging.getLogger(__name__)

_DEFAULT_TRIAL_TIMEOUT_MS = 600_000


class CircuitState(Enum):
    """`CLOSED`: requests pass. `OPEN`: refused. `HALF_OPEN`: one trial is under way."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Permit:
    """Leave to send one request. Report its outcome once; leaving the `with` block unreported is neutral.

    A permit given before the circuit last changed its state is powerless.
    """

    __slots__ = ("_breaker", "_generation", "_reported", "is_trial")

    def __init__(self, breaker: CircuitBreaker, generation: int, is_trial: bool) -> None:
        self._breaker = breaker
        self._generation = generation
        self._reported = False
        self.is_trial = is_trial

    def record_success(self) -> None:
        """The endpoint served the request."""
        self._report(True, 0)

    def record_failure(self, now_ms: int, cause: str = "") -> None:
        """The endpoint failed in a way that a retry may mend; `cause` is for the log."""
        self._report(False, now_ms, cause)

    def release(self) -> None:
        """Give the permit back without a verdict; a trial's place is free again at once."""
        self._report(None, 0)

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _report(self, served: bool | None, now_ms: int, cause: str = "") -> None:
        if not self._reported:
            self._reported = True
            self._breaker._settle(self._generation, served, now_ms, cause)


class CircuitBreaker:
    """Refuses requests to `endpoint` while it keeps failing.

    `threshold` consecutive failures open the circuit. `cooldown_ms` later, by the clock of the callers, one
    trial is let through: success closes, failure opens again with a new cooldown, anything else leaves the
    next caller the next trial. A trial that has not reported after the larger of `cooldown_ms` and
    `trial_timeout_ms` counts as lost. Safe to share between threads and event loops.

    Raises:
        ValueError: when a number is not a sensible int.
    """

    def __init__(
        self, *, endpoint: str, threshold: int, cooldown_ms: int, trial_timeout_ms: int = _DEFAULT_TRIAL_TIMEOUT_MS
    ) -> None:
        _require_int("threshold", threshold, 1)
        _require_int("cooldown_ms", cooldown_ms, 0)
        _require_int("trial_timeout_ms", trial_timeout_ms, 1)
        self.endpoint = endpoint
        self.threshold = threshold
        self.cooldown_ms = cooldown_ms
        self._trial_lost_after_ms = max(cooldown_ms, trial_timeout_ms)
        self._lock = threading.Lock()
        self._state = CircuitState.CLOSED
        self._generation = 0
        self._failures = 0
        self._opened_at_ms = 0
        self._trial_since_ms = 0
        self._opens = 0

    @property
    def state(self) -> CircuitState:
        """The state as it stands, without asking for a permit."""
        return self._state

    def take_opens(self) -> int:
        """How often the circuit has opened since this was last called; each time is told once."""
        with self._lock:
            opens, self._opens = self._opens, 0
            return opens

    def before_call(self, now_ms: int) -> Permit:
        """A permit for one request. Raises `CircuitOpenError` when none is to be had."""
        with self._lock:
            if self._state is not CircuitState.CLOSED:
                self._claim_trial(now_ms)
            return Permit(self, self._generation, self._state is CircuitState.HALF_OPEN)

    def refuses(self, now_ms: int) -> bool:
        """Whether `before_call` would refuse right now. Takes no permit."""
        with self._lock:
            return self._wait_ms(now_ms) != 0

    def record_success(self) -> None:
        """Feed a success by hand. Powerless while the circuit is open."""
        with self._lock:
            self._succeeded()

    def record_failure(self, now_ms: int, cause: str = "") -> None:
        """Feed a failure by hand. Powerless while the circuit is open."""
        with self._lock:
            self._failed(now_ms, cause)

    def _claim_trial(self, now_ms: int) -> None:
        wait_ms = self._wait_ms(now_ms)
        if wait_ms != 0:
            raise CircuitOpenError(self.endpoint, retry_in_ms=wait_ms)
        self._trial_since_ms = now_ms
        self._move_to(CircuitState.HALF_OPEN)

    def _wait_ms(self, now_ms: int) -> int | None:
        """0 when a request may go now, `None` while a trial is under way, else the cooldown that is left."""
        if self._state is CircuitState.CLOSED:
            return 0
        if self._state is CircuitState.HALF_OPEN:
            self._trial_since_ms = min(self._trial_since_ms, now_ms)  # a clock set back must not lock for hours
            return 0 if now_ms - self._trial_since_ms >= self._trial_lost_after_ms else None
        self._opened_at_ms = min(self._opened_at_ms, now_ms)
        return max(0, self._opened_at_ms + self.cooldown_ms - now_ms)

    def _settle(self, generation: int, served: bool | None, now_ms: int, cause: str) -> None:
        with self._lock:
            if generation != self._generation:
                return
            if served is None:
                if self._state is CircuitState.HALF_OPEN:
                    self._move_to(CircuitState.OPEN)  # the cooldown stays spent
            elif served:
                self._succeeded()
            else:
                self._failed(now_ms, cause)

    def _succeeded(self) -> None:
        if self._state is CircuitState.OPEN:
            return
        self._failures = 0
        if self._state is CircuitState.HALF_OPEN:
            self._move_to(CircuitState.CLOSED)
            now_ms = self._trial_since_ms
            open_ms = now_ms - self._opened_at_ms
            notices.tell("circuit_closed", now_ms, about=self.endpoint, endpoint=self.endpoint, open_ms=open_ms)

    def _failed(self, now_ms: int, cause: str) -> None:
        if self._state is CircuitState.OPEN:
            return
        self._failures += 1
        if self._state is CircuitState.HALF_OPEN or self._failures >= self.threshold:
            self._opened_at_ms = now_ms
            self._opens += 1
            self._move_to(CircuitState.OPEN)
            notices.tell(
                "circuit_opened",
                now_ms,
                about=self.endpoint,
                endpoint=self.endpoint,
                failures=self._failures,
                cause=cause or None,
                for_ms=self.cooldown_ms,
            )

    def _move_to(self, state: CircuitState) -> None:
        self._state = state
        self._generation += 1


_breakers: dict[str, CircuitBreaker] = {}
_breakers_lock = threading.Lock()


def circuit_breaker_for(
    endpoint: str,
    *,
    threshold: int = 10,
    cooldown_ms: int = 10_000,
    trial_timeout_ms: int = _DEFAULT_TRIAL_TIMEOUT_MS,
) -> CircuitBreaker:
    """The breaker of `endpoint` in this process: a worker-local singleton, never keyed Beam state.

    The first caller's numbers hold for all; one that asks for others is told so in the log.
    """
    with _breakers_lock:
        breaker = _breakers.get(endpoint)
        if breaker is None:
            breaker = CircuitBreaker(
                endpoint=endpoint, threshold=threshold, cooldown_ms=cooldown_ms, trial_timeout_ms=trial_timeout_ms
            )
            _breakers[endpoint] = breaker
        elif (breaker.threshold, breaker.cooldown_ms) != (threshold, cooldown_ms):
            _log.warning(
                "circuit breaker of endpoint=%s keeps threshold=%d cooldown_ms=%d; threshold=%d cooldown_ms=%d ignored",
                endpoint,
                breaker.threshold,
                breaker.cooldown_ms,
                threshold,
                cooldown_ms,
            )
        return breaker


def reset_circuit_breakers() -> None:
    """Forget every breaker of this process. For tests."""
    with _breakers_lock:
        _breakers.clear()


def _require_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")
