"""The arithmetic of load control: a rate, a budget of retries, a limit that adapts."""

from __future__ import annotations

from math import exp, log
from typing import Final

from beam_agents.ports import Clock, Rng

__all__ = ["AdaptiveLimit", "Pause", "RateBucket", "RetryBudget"]

_DECREASE: Final = 0.7
_DECREASE_SLOW: Final = 0.9
_SLOWER: Final = log(3)
_PAUSE_MS: Final = 1_000
_SMOOTHING: Final = 0.05
_DRIFT_PER_MS: Final = log(3) / 300_000

_SHORTEST_PAUSE_MS: Final = 200.0
_LONGEST_PAUSE_MS: Final = 10_000.0
_LONGEST_ASKED_MS: Final = 60_000.0

_RESERVE: Final = 10.0
_RESERVE_A_SECOND: Final = 0.1


class RateBucket:
    """Leaks `rate_per_ms`; may be overdrawn, and then makes the next wait until it is not.

    At most `most` is there at once; by default one second's worth.
    """

    def __init__(self, rate_per_ms: float, now_ms: Clock, *, most: float | None = None) -> None:
        self._rate = rate_per_ms
        self._most = max(1.0, rate_per_ms * 1000) if most is None else most
        self._level = self._most
        self._now_ms = now_ms
        self._at_ms = now_ms()

    @classmethod
    def per_minute(cls, rate: float | None, now_ms: Clock) -> RateBucket | None:
        """A bucket of `rate` a minute, or `None` for no limit."""
        return None if rate is None else cls(rate / 60_000, now_ms)

    def wait_ms(self) -> float:
        """How long until the next may be taken; 0 for now."""
        self._refill()
        return 0.0 if self._level >= 1 else max(1.0, (1 - self._level) / self._rate)

    def take(self, amount: float) -> None:
        """Take `amount`; negative gives back."""
        self._refill()
        self._level = min(self._most, self._level - amount)

    def _refill(self) -> None:
        now_ms = self._now_ms()
        self._level = min(self._most, self._level + max(0, now_ms - self._at_ms) * self._rate)
        self._at_ms = now_ms


class Pause:
    """A time of rest for a whole endpoint that limits the rate: what it asks for, else twice the last one.

    Drawn between half and all of it, so that workers do not come back together. A success ends the doubling.
    """

    def __init__(self, now_ms: Clock, rng: Rng) -> None:
        self._now_ms = now_ms
        self._rng = rng
        self._until_ms = 0.0
        self._longest_left_ms = 0.0
        self._length_ms = 0.0

    def wait_ms(self) -> float:
        """What is left of it; never more than it was, wherever the clock is set back to."""
        now_ms = self._now_ms()
        self._until_ms = min(self._until_ms, now_ms + self._longest_left_ms)
        return max(0.0, self._until_ms - now_ms)

    def begin(self, asked_ms: float | None) -> None:
        """The endpoint refused; `asked_ms` is what it asks to wait, when it said so."""
        now_ms = self._now_ms()
        if self.wait_ms() == 0:
            self._length_ms = min(max(self._length_ms * 2, _SHORTEST_PAUSE_MS), _LONGEST_PAUSE_MS)
        length_ms = self._length_ms * self._rng.uniform(0.5, 1)
        if asked_ms is not None and asked_ms > 0:
            length_ms = max(length_ms, min(asked_ms, _LONGEST_ASKED_MS))
        self._until_ms = max(self._until_ms, now_ms + length_ms)
        self._longest_left_ms = self._until_ms - now_ms

    def served(self) -> None:
        """The endpoint answered."""
        self._length_ms = 0.0


class RetryBudget:
    """Retries as a share of calls, and a small reserve for times with few of them: one more every ten seconds."""

    def __init__(self, share: float, now_ms: Clock) -> None:
        self._share = share
        self._earned = 0.0
        self._most = max(_RESERVE, share * 1_000)
        self._reserve = RateBucket(_RESERVE_A_SECOND / 1000, now_ms, most=_RESERVE)

    def earn(self) -> None:
        """A request was sent, be it a retry."""
        self._earned = min(self._most, self._earned + self._share)

    def take(self) -> bool:
        """Whether there is a retry to be had; it is taken."""
        price = 1 + self._share  # a retry earns its share too
        if self._earned >= price:
            self._earned -= price
            return True
        if self._reserve.wait_ms() == 0:
            self._reserve.take(1)
            return True
        return False


class AdaptiveLimit:
    """Requests at once: one more for each round without trouble, fewer at each sign of overload (AIMD).

    A refusal or time-out takes 30 % away, answers three times slower than usual take 10 %; at most once a
    second, never below 1. Starts at `cap`. After a `restart` it begins at 1 and doubles each round, up to half of
    where it was.

    Answers that wait in a queue come sooner when fewer are asked for. Where the limit fell by as much as the answers
    had slowed down and they are no faster, they take that long by themselves: it is what is usual from then on, and
    the limit doubles each round, back to where it was.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._limit = float(cap)
        self._changed_at_ms: int | None = None
        self._doubles_up_to = 0.0
        self._pace = _Pace()
        self._before = 0.0

    @property
    def limit(self) -> int:
        """Requests that may be in flight."""
        return max(1, int(self._limit))

    def raise_cap(self, cap: int) -> None:
        """Let the limit grow up to `cap`."""
        if cap > self._cap:
            if self._limit >= self._cap:
                self._limit = float(cap)
            self._cap = cap

    def served(self, now_ms: int, took_ms: float, in_use: int) -> None:
        """A request was answered after `took_ms`, with `in_use` in flight."""
        self._pace.note(now_ms, took_ms)
        if in_use < self.limit / 2:
            return
        if self._pace.is_slower:
            self._slow_down(now_ms)
            return
        self._before = 0.0
        step = 1.0 if self._limit < self._doubles_up_to else 1 / self._limit
        self._limit = min(self._cap, self._limit + step)

    def restart(self) -> None:
        """The endpoint served nothing for a while: begin carefully."""
        self._doubles_up_to = max(self._doubles_up_to, self._limit / 2)
        self._limit = 1.0

    def failed(self, now_ms: int) -> None:
        """The endpoint said that it has too much to do."""
        self._before = 0.0
        self._shrink(now_ms, _DECREASE)

    def _slow_down(self, now_ms: int) -> None:
        if not self._before:
            self._before = self._limit
        if self._limit > max(1.0, self._before / self._pace.slowdown):
            self._shrink(now_ms, _DECREASE_SLOW)
            return
        self._pace.accept()
        self._doubles_up_to, self._before = self._before, 0.0

    def _shrink(self, now_ms: int, factor: float) -> None:
        if self._changed_at_ms is not None and 0 <= now_ms - self._changed_at_ms < _PAUSE_MS:
            return
        self._changed_at_ms = now_ms
        self._doubles_up_to = 0.0
        self._limit = max(1.0, self._limit * factor)


class _Pace:
    """How long answers take lately beside how long they usually do: geometric means, which a few long ones hardly move.

    What is usual falls at once and rises threefold in five minutes.
    """

    def __init__(self) -> None:
        self._usual: float | None = None
        self._lately = 0.0
        self._slowest = 0.0
        self._noted_at_ms = 0

    def note(self, now_ms: int, took_ms: float) -> None:
        took = log(max(took_ms, 1.0))
        if self._usual is None:
            self._usual = self._lately = took
        else:
            self._lately += (took - self._lately) * _SMOOTHING
            drift = max(0, now_ms - self._noted_at_ms) * _DRIFT_PER_MS
            self._usual = min(self._lately, self._usual + drift)
        self._noted_at_ms = now_ms
        self._slowest = max(self._slowest, self._lately - self._usual) if self.is_slower else 0.0

    @property
    def is_slower(self) -> bool:
        return self._usual is not None and self._lately - self._usual > _SLOWER

    @property
    def slowdown(self) -> float:
        """How many times slower answers were at the worst since they are slower."""
        return exp(self._slowest)

    def accept(self) -> None:
        """What is lately is usual."""
        self._usual, self._slowest = self._lately, 0.0
