"""How much a round does."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Shape"]

_REFUSED_ONE_IN = 17
_STRIDE = 7_919


@dataclass(frozen=True, slots=True)
class Shape:
    """Events are numbered over all keys; event `n` belongs to key `n % keys` and time `micros_of(n)`.

    With `refuses`, the agent makes dead letters of some events. With `fails_once`, the bundle of the last event
    fails the first time that it gets there. With `paced`, events come one each `step_ms` from an unbounded source,
    and `start_s` is when that begins; with `disorder_ms`, their times are up to that much out of order, none late. With
    `timed`, activations are committed by timers, and windows without lateness stand behind the agent, not before it.
    """

    keys: int = 40
    events: int = 3
    calls: int = 2
    start_s: int = 1_700_000_000
    step_ms: int = 1_000
    window_s: int = 50
    max_in_flight: int = 64
    latency_ms: tuple[int, int] = (40, 160)
    faults: float = 0.1
    paced: bool = False
    disorder_ms: int = 0
    timed: bool = False
    refuses: bool = True
    fails_once: bool = False
    limit_s: float = 90.0

    @property
    def total(self) -> int:
        """How many events there are."""
        return self.keys * self.events

    def micros_of(self, n: int) -> int:
        """Time of event `n`, in microseconds since the epoch."""
        earlier_ms = n * _STRIDE % (self.disorder_ms + 1)
        return self.start_s * 1_000_000 + (n * self.step_ms - earlier_ms) * 1_000

    def window_of(self, n: int) -> int | None:
        """Start of the window that its result is in, in microseconds since the epoch; `None` for the global one."""
        if self.timed:
            return None
        length = self.window_s * 1_000_000
        return self.micros_of(n) // length * length

    def is_refused(self, n: int) -> bool:
        """Whether the agent refuses event `n`, after it has paid for its calls."""
        return self.refuses and n % _REFUSED_ONE_IN == _REFUSED_ONE_IN - 1
