"""Deleting old calls from a journal file, a bounded share at a time."""

from __future__ import annotations

import sqlite3

from beam_agents.journals.record import PruneReport

__all__ = ["delete_calls", "prune"]

_WINDOW_ROWS = 500

_IS_FRESH = """
SELECT 1 FROM attempts a LEFT JOIN sessions s ON s.id = a.session
WHERE a.scope = ? AND a.call_id = ?
    AND (coalesce(a.ended_ms, a.began_ms) >= ? OR (a.state = 'intent' AND s.lease_until_ms > ?)) LIMIT 1
"""


def prune(connection: sqlite3.Connection, before_ms: int, now_ms: int, *, after: int) -> tuple[PruneReport, int | None]:
    """Look at the next rows after the row id `after`, oldest first, and delete calls unchanged since `before_ms`.

    A call goes as a whole, and not while a live owner waits for it. Gives also where to go on, or `None` when the
    rest is younger.
    """
    window = connection.execute(
        "SELECT id, scope, call_id, began_ms FROM attempts WHERE id > ? ORDER BY id LIMIT ?", (after, _WINDOW_ROWS)
    ).fetchall()
    old = {(scope, call_id) for _, scope, call_id, began_ms in window if began_ms < before_ms}
    stale = [call for call in old if connection.execute(_IS_FRESH, (*call, before_ms, now_ms)).fetchone() is None]
    more = len(window) == _WINDOW_ROWS and window[-1][3] < before_ms
    return delete_calls(connection, stale), window[-1][0] if more else None


def delete_calls(connection: sqlite3.Connection, calls: list[tuple[str, str]]) -> PruneReport:
    """Delete all rows of these calls (scope and call id)."""
    attempts = 0
    for call in calls:
        attempts += connection.execute("DELETE FROM attempts WHERE scope = ? AND call_id = ?", call).rowcount
    return PruneReport(len(calls), attempts)
