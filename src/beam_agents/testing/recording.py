"""A manual clock, a sleeper that only takes notes, and a sink that remembers."""

from __future__ import annotations

import asyncio

from beam_agents.proto import TraceEvent
from beam_agents.values import TokenUsage

__all__ = ["ManualClock", "RecordingSink", "RecordingSleep"]


class ManualClock:
    """A clock that moves only when told to. Calling it reads it, in milliseconds."""

    def __init__(self, start_ms: int = 0) -> None:
        self.now_ms = start_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: float) -> None:
        """Move by `ms` milliseconds; negative moves back."""
        self.now_ms += int(ms)


class RecordingSleep:
    """A sleeper that returns at once and keeps each delay, in milliseconds, in `delays`.

    Given a `ManualClock`, it advances it by each delay, rounded up to whole milliseconds.
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.delays: list[float] = []
        self._clock = clock

    async def __call__(self, ms: float) -> None:
        self.delays.append(ms)
        if self._clock is not None:
            self._clock.advance(-(-ms // 1))
        await asyncio.sleep(0)  # noqa: TID251 - lets other tasks run, waits for nothing


class RecordingSink:
    """A `StagingSink` that keeps what was staged, in order."""

    def __init__(self) -> None:
        self.trace_events: list[TraceEvent] = []
        self.usages: list[TokenUsage] = []

    def stage_trace_event(self, event: TraceEvent) -> None:
        self.trace_events.append(event)

    def accumulate_usage(self, usage: TokenUsage) -> None:
        self.usages.append(usage)

    @property
    def billed(self) -> TokenUsage:
        """The sum of the staged usages."""
        return sum(self.usages, TokenUsage(0, 0, 0))
