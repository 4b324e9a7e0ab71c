"""The tables and statements of a journal in PostgreSQL. `{s}` stands for the quoted schema.

Every statement returns rows, so that all are read alike. Times and leases are by the server's clock.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beam_agents.journals.attempts import LOST

__all__ = [
    "BEAT",
    "CLEAR_SESSIONS",
    "CONDEMN",
    "FAREWELL",
    "FINISH",
    "GRANT",
    "NOW",
    "PRUNE",
    "READ",
    "SCHEMA_VERSION",
    "SIZE",
    "TABLES",
    "WITHDRAW",
    "Statement",
    "forget",
    "page",
]

SCHEMA_VERSION = 1

NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

TABLES = """
CREATE SCHEMA IF NOT EXISTS {s};
CREATE TABLE {s}.meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE {s}.sessions (id text PRIMARY KEY, owner text NOT NULL, lease_until_ms bigint NOT NULL);
CREATE TABLE {s}.attempts (
    scope text NOT NULL,
    call_id text NOT NULL,
    ordinal integer NOT NULL,
    state text NOT NULL,
    session text NOT NULL,
    grant_no bigint NOT NULL,
    owner text NOT NULL,
    began_ms bigint NOT NULL,
    ended_ms bigint,
    kind text NOT NULL,
    model_id text NOT NULL,
    entity_key bytea NOT NULL,
    seq bigint NOT NULL,
    step_index integer NOT NULL,
    fingerprint text NOT NULL,
    error_type text NOT NULL DEFAULT '',
    status integer,
    usage text NOT NULL DEFAULT '',
    key_id text NOT NULL DEFAULT '',
    digest bytea,
    response bytea,
    PRIMARY KEY (scope, call_id, ordinal)
);
CREATE UNIQUE INDEX attempts_standing ON {s}.attempts (scope, call_id) WHERE response IS NOT NULL;
CREATE INDEX attempts_by_position ON {s}.attempts (entity_key, seq);
CREATE INDEX attempts_by_age ON {s}.attempts USING brin (began_ms);
INSERT INTO {s}.meta VALUES ('version', '1')
"""

_IDENTITY = "scope, call_id, kind, model_id, entity_key, seq, step_index, fingerprint"
_IDENTITY_VALUES = (
    "%(scope)s, %(call_id)s, %(kind)s, %(model_id)s, %(entity_key)s, %(seq)s, %(step_index)s, %(fingerprint)s"
)
_CALL = "scope = %(scope)s AND call_id = %(call_id)s"

READ = f"""
SELECT ordinal, state, error_type, status, usage, key_id, digest, response, session,
    (s.lease_until_ms - {NOW})::bigint
FROM {{s}}.attempts a LEFT JOIN {{s}}.sessions s ON a.state = 'intent' AND s.id = a.session
WHERE {_CALL} ORDER BY ordinal
"""

AT_POSITION = """
SELECT scope, call_id, entity_key, seq, step_index, model_id, kind, fingerprint FROM {s}.attempts
WHERE scope = %(scope)s AND entity_key = %(entity_key)s AND seq = %(seq)s ORDER BY began_ms, call_id
"""

GRANT = f"""
WITH rows AS MATERIALIZED (
    SELECT a.ordinal, a.state, a.response IS NOT NULL AS stands,
        a.session = %(session)s OR coalesce(s.lease_until_ms > {NOW}, false) AS is_live
    FROM {{s}}.attempts a LEFT JOIN {{s}}.sessions s ON a.state = 'intent' AND s.id = a.session
    WHERE {_CALL}
), may AS (
    SELECT NOT EXISTS (SELECT FROM rows WHERE stands OR (state = 'intent' AND is_live)) AS be_granted
), lost AS (
    UPDATE {{s}}.attempts a SET state = 'in_doubt', error_type = '{LOST}', ended_ms = {NOW}
    FROM may WHERE may.be_granted AND {_CALL} AND a.state = 'intent'
)
INSERT INTO {{s}}.attempts (ordinal, state, session, grant_no, owner, began_ms, {_IDENTITY})
SELECT coalesce((SELECT max(ordinal) FROM rows), 0) + 1, 'intent', %(session)s, %(grant_no)s, %(owner)s, {NOW},
    {_IDENTITY_VALUES}
FROM may WHERE may.be_granted
ON CONFLICT (scope, call_id, ordinal) DO NOTHING
RETURNING ordinal
"""

FINISH = f"""
INSERT INTO {{s}}.attempts AS a (ordinal, state, session, grant_no, owner, began_ms, ended_ms, error_type, status,
    usage, key_id, digest, response, {_IDENTITY})
SELECT %(ordinal)s, %(state)s, %(session)s, 0, %(owner)s, {NOW}, {NOW}, %(error_type)s, %(status)s, %(usage)s,
    %(key_id)s, %(digest)s, CASE WHEN EXISTS (
        SELECT FROM {{s}}.attempts WHERE {_CALL} AND response IS NOT NULL
    ) THEN NULL ELSE %(stored)s::bytea END, {_IDENTITY_VALUES}
ON CONFLICT (scope, call_id, ordinal) DO UPDATE SET state = excluded.state, ended_ms = excluded.ended_ms,
    error_type = excluded.error_type, status = excluded.status, usage = excluded.usage, key_id = excluded.key_id,
    digest = excluded.digest, response = excluded.response
WHERE (excluded.state = 'answered' AND a.state <> 'answered')
    OR a.state = 'intent' OR (a.error_type = '{LOST}' AND a.state = 'in_doubt')
RETURNING response IS NOT NULL
"""

CONDEMN = f"""
UPDATE {{s}}.attempts SET response = NULL, error_type = %(error_type)s
WHERE {_CALL} AND ordinal = %(ordinal)s AND digest IS NOT DISTINCT FROM %(digest)s RETURNING ordinal
"""

WITHDRAW = f"""
DELETE FROM {{s}}.attempts
WHERE {_CALL} AND session = %(session)s AND grant_no = %(grant_no)s AND state = 'intent' RETURNING ordinal
"""

BEAT = f"""
INSERT INTO {{s}}.sessions VALUES (%(session)s, %(owner)s, {NOW} + %(lease_ms)s)
ON CONFLICT (id) DO UPDATE SET lease_until_ms = excluded.lease_until_ms RETURNING 1
"""

CLEAR_SESSIONS = f"DELETE FROM {{s}}.sessions WHERE lease_until_ms < {NOW} - 60000 RETURNING 1"

FAREWELL = "DELETE FROM {s}.sessions WHERE id = %(session)s RETURNING 1"

PRUNE = f"""
WITH old AS (
    SELECT scope, call_id FROM {{s}}.attempts a
    WHERE a.began_ms < %(before_ms)s AND NOT EXISTS (
        SELECT FROM {{s}}.attempts b LEFT JOIN {{s}}.sessions s ON s.id = b.session
        WHERE b.scope = a.scope AND b.call_id = a.call_id AND (
            coalesce(b.ended_ms, b.began_ms) >= %(before_ms)s OR (b.state = 'intent' AND s.lease_until_ms > {NOW})
        )
    ) LIMIT %(limit)s FOR UPDATE OF a SKIP LOCKED
), gone AS (
    DELETE FROM {{s}}.attempts a USING (SELECT DISTINCT scope, call_id FROM old) o
    WHERE a.scope = o.scope AND a.call_id = o.call_id RETURNING a.scope, a.call_id
)
SELECT count(DISTINCT (scope, call_id)), count(*) FROM gone
"""


SIZE = "SELECT pg_total_relation_size('{s}.attempts') + pg_total_relation_size('{s}.sessions')"


def page(conditions: str, *, answers: bool) -> str:
    """The records after a place, by scope, call and ordinal."""
    return f"""
SELECT scope, call_id, entity_key, seq, step_index, model_id, kind, fingerprint,
    ordinal, state, error_type, status, usage, key_id, digest, {"response" if answers else "NULL::bytea"},
    a.owner, began_ms, ended_ms, coalesce(length(response), 0), coalesce(s.lease_until_ms > {NOW}, false)
FROM {{s}}.attempts a LEFT JOIN {{s}}.sessions s ON a.state = 'intent' AND s.id = a.session
WHERE (scope, call_id, ordinal) > (%(after_scope)s, %(after_call_id)s, %(after_ordinal)s){conditions}
ORDER BY scope, call_id, ordinal LIMIT %(after_limit)s
"""


def forget(conditions: str) -> str:
    """Delete whole calls."""
    return f"""
WITH meant AS (
    SELECT DISTINCT scope, call_id FROM {{s}}.attempts WHERE true{conditions}
), gone AS (
    DELETE FROM {{s}}.attempts a USING meant m WHERE a.scope = m.scope AND a.call_id = m.call_id
    RETURNING a.scope, a.call_id
)
SELECT count(DISTINCT (scope, call_id)), count(*) FROM gone
"""


class Statement(NamedTuple):
    """One statement with its parameters; `order` keeps concurrent transactions from locking crosswise."""

    text: str
    parameters: dict[str, Any]
    order: tuple[str, str] = ("", "")
