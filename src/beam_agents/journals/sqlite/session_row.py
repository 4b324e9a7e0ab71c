"""A session's row, lock and lease in a journal file, and the clearing away of what is too old."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from beam_agents.journals.ownership import Session
from beam_agents.journals.record import PruneReport
from beam_agents.journals.sqlite.owner_lock import OwnerLock, owner_is_dead
from beam_agents.ports import Clock

__all__ = ["SessionRow", "prune"]

_PRUNED_AT_ONCE = 500

_OLD_CALLS = """
SELECT scope, call_id FROM attempts a WHERE a.id > :after AND a.began_ms < :before AND NOT EXISTS (
    SELECT 1 FROM attempts b LEFT JOIN sessions s ON s.id = b.session
    WHERE b.scope = a.scope AND b.call_id = a.call_id
        AND (coalesce(b.ended_ms, b.began_ms) >= :before OR (b.state = 'intent' AND s.lease_until_ms > :now))
) GROUP BY scope, call_id LIMIT :limit
"""


class SessionRow:
    """The `Upkeep` of a writer: a lease that is extended, and a bounded share of pruning at each beat."""

    def __init__(self, session: Session, path: Path, now_ms: Clock) -> None:
        self._session = session
        self._path = path
        self._now_ms = now_ms
        self._lock: OwnerLock | None = None
        self._beaten_ms: int | None = None
        self._beating_ms = 0

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
            "INSERT INTO sessions (id, owner, lease_until_ms) VALUES (?1, ?2, ?3) "
            "ON CONFLICT (id) DO UPDATE SET lease_until_ms = ?3",
            (self._session.id, self._session.owner, self._beating_ms + self._session.terms.lease_ms),
        )
        if self._session.terms.ttl_ms is not None:
            prune(connection, self._beating_ms - self._session.terms.ttl_ms, self._beating_ms)
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


def prune(connection: sqlite3.Connection, before_ms: int, now_ms: int) -> PruneReport:
    """Delete some of the calls that have not changed since `before_ms`, oldest first, and free their pages."""
    oldest = connection.execute("SELECT began_ms FROM attempts ORDER BY id LIMIT 1").fetchone()
    if oldest is None or oldest[0] >= before_ms:
        return PruneReport()
    told = {"before": before_ms, "now": now_ms, "after": 0, "limit": _PRUNED_AT_ONCE}
    calls = connection.execute(_OLD_CALLS, told).fetchall()
    attempts = 0
    for call in calls:
        attempts += connection.execute("DELETE FROM attempts WHERE scope = ? AND call_id = ?", call).rowcount
    return PruneReport(len(calls), attempts)
