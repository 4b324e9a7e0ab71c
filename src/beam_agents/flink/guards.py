"""Timers that are in every checkpoint."""

from __future__ import annotations

from pyflink.datastream import TimerService

__all__ = ["is_guard", "set_guards"]

_GRIDS_MS = (20_000, 600_000, 6 * 3_600_000)


def set_guards(timers: TimerService, fired_ms: int | None = None) -> None:
    """Set the next two timers of each grid, or of the grids that the timer of `fired_ms` was on.

    PyFlink finishes a bundle for a checkpoint, and hands the timers that it set to Flink only afterwards: the
    state of the bundle is in that checkpoint, its timers are not. So the timer that will fire next must have
    been set by an earlier bundle: two steps of its grid ahead. Where bundle and restart took longer than two steps
    of a grid, the next coarser one still stands.
    """
    now_ms = timers.current_processing_time()
    for grid_ms in _GRIDS_MS:
        if fired_ms is None or fired_ms % grid_ms == 0:
            step = now_ms // grid_ms
            timers.register_processing_time_timer((step + 1) * grid_ms)
            timers.register_processing_time_timer((step + 2) * grid_ms)


def is_guard(fired_ms: int) -> bool:
    """Whether the timer that has fired is one of these."""
    return fired_ms % _GRIDS_MS[0] == 0
