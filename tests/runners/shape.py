"""How much a round does."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Events are numbered over all keys; event `n` belongs to key `n % keys` and time `start_s + n * step_s`."""

    keys: int = 40
    events: int = 3
    calls: int = 2
    start_s: float = 1_700_000_000.0
    step_s: float = 1.0
    window_s: float = 50.0
    max_in_flight: int = 64
    latency_ms: tuple[int, int] = (40, 160)
    faults: float = 0.1
    paced: bool = False
    limit_s: float = 90.0

    @property
    def total(self) -> int:
        """How many events there are."""
        return self.keys * self.events
