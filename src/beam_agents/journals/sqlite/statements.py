"""The statements of a journal file. Each function runs inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from beam_agents.journals.attempts import LOST, Ending, dump_fingerprint
from beam_agents.ports import CallIdentity

__all__ = [
    "AT_POSITION",
    "ROWS_OF_CALL",
    "answer_first",
    "condemn",
    "finish",
    "insert_intent",
    "mark_lost",
    "stands",
    "withdraw",
]

ROWS_OF_CALL = """
SELECT a.ordinal, a.state, a.error_type, a.status, a.usage, a.key_id, a.digest, a.response, s.lease_until_ms, a.session
FROM attempts a LEFT JOIN sessions s ON a.state = 'intent' AND s.id = a.session
WHERE a.scope = ? AND a.call_id = ? ORDER BY a.ordinal
"""

AT_POSITION = """
SELECT scope, call_id, entity_key, seq, step_index, model_id, kind, fingerprint
FROM attempts WHERE scope = ? AND entity_key = ? AND seq = ? ORDER BY id
"""

_INSERT_INTENT = """
INSERT INTO attempts (scope, call_id, ordinal, state, session, owner, began_ms, kind, model_id, entity_key, seq,
    step_index, fingerprint)
VALUES (?, ?, ?, 'intent', ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, call_id, ordinal) DO NOTHING
"""

_END_FIRST_ANSWERED = """
UPDATE attempts SET state = 'answered', ended_ms = ?, usage = ?, key_id = ?, digest = ?, response = ?
WHERE scope = ? AND call_id = ? AND ordinal = 1 AND state = 'intent'
"""

_END_ANSWERED = """
UPDATE attempts SET state = 'answered', ended_ms = ?, error_type = '', status = NULL, usage = ?, key_id = ?, digest = ?,
    response = CASE WHEN EXISTS (
        SELECT 1 FROM attempts b
        WHERE b.scope = attempts.scope AND b.call_id = attempts.call_id AND b.response IS NOT NULL
    ) THEN NULL ELSE ? END
WHERE scope = ? AND call_id = ? AND ordinal = ? AND state <> 'answered'
"""

_END_UNANSWERED = f"""
UPDATE attempts SET state = ?, ended_ms = ?, error_type = ?, status = ?
WHERE scope = ? AND call_id = ? AND ordinal = ? AND (state = 'intent' OR error_type = '{LOST}')
"""

_STANDS = "SELECT 1 FROM attempts WHERE scope = ? AND call_id = ? AND ordinal = ? AND response IS NOT NULL"

_CONDEMN = """
UPDATE attempts SET response = NULL, error_type = ?
WHERE scope = ? AND call_id = ? AND ordinal = ? AND digest IS ?
"""


def insert_intent(
    connection: sqlite3.Connection, call: CallIdentity, ordinal: int, session: tuple[str, str], now_ms: int
) -> bool:
    """Insert an intent of `session` (id and owner); `False` when that ordinal is taken."""
    row = (call.scope, call.call_id, ordinal, *session, now_ms, call.kind, call.model_id)
    place = (call.entity_key, call.seq, call.step_index, dump_fingerprint(call.fingerprint))
    return connection.execute(_INSERT_INTENT, row + place).rowcount > 0


def mark_lost(connection: sqlite3.Connection, call: CallIdentity, ordinals: Iterable[int], now_ms: int) -> None:
    """Take intents as in doubt and lost."""
    for ordinal in ordinals:
        connection.execute(_END_UNANSWERED, ("in_doubt", now_ms, LOST, None, call.scope, call.call_id, ordinal))


def answer_first(connection: sqlite3.Connection, call: CallIdentity, ending: Ending, now_ms: int) -> bool:
    """Record the answer to the first request while that is an intent, so that no other one can have an answer."""
    if ending.state != "answered":
        return False
    first = (now_ms, ending.usage, ending.key_id, ending.digest, ending.stored, call.scope, call.call_id)
    return connection.execute(_END_FIRST_ANSWERED, first).rowcount > 0


def finish(connection: sqlite3.Connection, call: CallIdentity, ordinal: int, ending: Ending, now_ms: int) -> bool:
    """Record how a request ended; `False` when its row did not change."""
    key = (call.scope, call.call_id, ordinal)
    if ending.state == "answered":
        told: tuple[object, ...] = (now_ms, ending.usage, ending.key_id, ending.digest, ending.stored, *key)
        return connection.execute(_END_ANSWERED, told).rowcount > 0
    told = (ending.state, now_ms, ending.error_type, ending.status, *key)
    return connection.execute(_END_UNANSWERED, told).rowcount > 0


def stands(connection: sqlite3.Connection, call: CallIdentity, ordinal: int) -> bool:
    """Whether the request's answer is the one that stands."""
    return connection.execute(_STANDS, (call.scope, call.call_id, ordinal)).fetchone() is not None


def condemn(
    connection: sqlite3.Connection, call: CallIdentity, ordinal: int, digest: bytes | None, error_type: str
) -> None:
    """Drop the bytes of an answer."""
    connection.execute(_CONDEMN, (error_type, call.scope, call.call_id, ordinal, digest))


def withdraw(connection: sqlite3.Connection, call: CallIdentity, ordinal: int) -> None:
    """Delete an intent that nobody will act on."""
    connection.execute(
        "DELETE FROM attempts WHERE scope = ? AND call_id = ? AND ordinal = ? AND state = 'intent'",
        (call.scope, call.call_id, ordinal),
    )
