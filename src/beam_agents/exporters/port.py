"""What the rest may assume of an exporter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from beam_agents.proto import TraceEvent

__all__ = ["Exporter"]


@runtime_checkable
class Exporter(Protocol):
    """Sends trace events somewhere, without ever blocking or failing its caller.

    Every event handed to `export` ends up in exactly one of the two counts by the time `close` returns.
    """

    @property
    def exported(self) -> int:
        """Events that the other side took."""
        ...

    @property
    def dropped(self) -> int:
        """Events that were given up."""
        ...

    @property
    def last_error(self) -> str:
        """Why the latest event was given up; empty while all is well."""
        ...

    def export(self, events: Iterable[TraceEvent]) -> None:
        """Take `events`. Returns at once and never raises."""
        ...

    def flush(self, timeout_ms: int = 10_000) -> bool:
        """Wait until what was taken is sent; `False` when that failed or took longer."""
        ...

    def close(self) -> None:
        """Flush and release everything. Idempotent."""
        ...
