"""A session's row, lock and lease in a journal file, and the clearing away of what is too old."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from beam_agents.journals.ownership import Session
from beam_agents.journals.sqlite.owner_lock import OwnerLock, owner_is_dead
from beam_agents.journals.sqlite.pruning import prune
from beam_agents.ports import Clock

__all__ = ["SessionRow"]


class SessionRow:
    """The `Upkeep` of a writer: a lease that is extended, and a bounded share of pruning at each beat."""

    def __init__(self, session: Session, path: Path, now_ms: Clock) -> None:
        self._session = session
        self._path = path
        self._now_ms = now_ms
        self._lock: OwnerLock | None = None
        self._beaten_ms: int | None = None
        self._beating_ms = 0
        self._pruned_to: int | None = 0

    def is_due(self) -> bool:
        """See `Upkeep.is_due`."""
        if self._beaten_ms is None:
            return True
        return not 0 <= self._now_ms() - self._beaten_ms < 0.9 * self._session.terms.heartbeat_ms

    def write(self, connection: sqlite3.Connection) -> None:
        """See `Upkeep.write`."""
        if self._lock is None:
            self._lock = OwnerLock(self._path, self._session.id)
        self._beating_ms = self._now_ms()
        connection.execute(
            "INSERT INTO sessions (id, owner, lease_until_ms) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET lease_until_ms = excluded.lease_until_ms",
            (self._session.id, self._session.owner, self._beating_ms + self._session.terms.lease_ms),
        )
        if self._session.terms.ttl_ms is not None:
            before_ms = self._beating_ms - self._session.terms.ttl_ms
            _, self._pruned_to = prune(connection, before_ms, self._beating_ms, after=self._pruned_to or 0)
        connection.execute("DELETE FROM sessions WHERE lease_until_ms < ?", (self._beating_ms,))

    def done(self) -> None:
        """See `Upkeep.done`."""
        self._beaten_ms = self._beating_ms

    def farewell(self, connection: sqlite3.Connection) -> None:
        """See `Upkeep.farewell`."""
        connection.execute("DELETE FROM sessions WHERE id = ?", (self._session.id,))
        if self._lock is not None:
            self._lock.release()

    def left_ms(self, session_id: str, lease_until_ms: int | None) -> float | None:
        """How long the lease of a session still runs; `None` when it does not, or its process has ended."""
        left = self._session.left_ms(session_id, lease_until_ms, self._now_ms())
        if left is None or self._session.is_kin(session_id):
            return left
        return None if owner_is_dead(self._path, session_id) else left
