"""How much a round does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Shape", "shape_for"]

_REFUSED_ONE_IN = 17
_STRIDE = 7_919


@dataclass(frozen=True, slots=True)
class Shape:
    """Events are numbered over all keys; event `n` belongs to key `n % keys` and time `micros_of(n)`.

    `transform` is what they go through. All but `RunAgent` know no keys, and make one call for an event.

    With `refuses`, some events become dead letters. With `fails_once`, the bundle of the last event
    fails the first time that it gets there. With `paced`, events come one each `step_ms` from an unbounded source,
    and `start_s` is when that begins; with `disorder_ms`, their times are up to that much out of order, none late. With
    `timed`, activations are committed by timers, and windows without lateness stand behind the agent, not before it.
    """

    transform: str = "RunAgent"
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
        return None if self.timed else self._window_start(n)

    def placed_at(self, n: int) -> int:
        """Time of its result. `RunInference` makes batches of a window, at its last moment."""
        if self.transform == "model handler":
            return self._window_start(n) + self.window_s * 1_000_000 - 1
        return self.micros_of(n)

    def _window_start(self, n: int) -> int:
        length = self.window_s * 1_000_000
        return self.micros_of(n) // length * length

    @property
    def answers(self) -> int:
        """How many answers are paid for. The model handler's steps can refuse only before the call."""
        asked = self.total
        if self.transform == "model handler":
            asked -= sum(map(self.is_refused, range(self.total)))
        return asked * self.calls

    def is_refused(self, n: int) -> bool:
        """Whether event `n` becomes a dead letter."""
        return self.refuses and n % _REFUSED_ONE_IN == _REFUSED_ONE_IN - 1


def shape_for(transform: str, **fields: Any) -> Shape:
    """The shape of a round through `transform`; without keys there is one call for an event."""
    return Shape(transform, **({} if transform == "RunAgent" else {"calls": 1}), **fields)
