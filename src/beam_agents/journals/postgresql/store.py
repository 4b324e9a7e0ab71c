"""The `AttemptStore` in PostgreSQL: one connection for reads, one for writes that are committed together."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from beam_agents.errors import JournalError
from beam_agents.journals.attempts import INTENT, AttemptRow, Ending, dump_fingerprint
from beam_agents.journals.batcher import Batcher
from beam_agents.journals.ownership import Heartbeat, Session
from beam_agents.journals.postgresql import statements
from beam_agents.journals.postgresql.link import PostgresqlLink
from beam_agents.journals.postgresql.statements import Statement
from beam_agents.journals.record import identity
from beam_agents.journals.stored import Opening, Rows
from beam_agents.ports import CallIdentity, Intent

__all__ = ["PostgresqlStore"]

_BEATS_PER_PRUNING = 60
_PRUNED_AT_ONCE = 500


class PostgresqlStore:
    """Attempts in one schema of one database; bound to one event loop."""

    def __init__(self, opening: Opening) -> None:
        self.shown = opening.uri.shown
        self._terms = opening.uri.terms()
        self._reading = PostgresqlLink(opening.uri, opening.vault, makes_new=True)
        self._writing = PostgresqlLink(opening.uri, opening.vault, makes_new=True)
        self._session = Session(opening.owner, self._terms)
        self._reads: Batcher[Statement] = Batcher(self._reading.run, self.shown)
        self._writes: Batcher[Statement] = Batcher(self._writing.run, self.shown)
        self._heartbeat = Heartbeat(self._beat, self._terms.heartbeat_ms)
        self._grants = itertools.count(1)
        self._beats = itertools.count()

    async def read(self, call: CallIdentity) -> Rows:
        """See `AttemptStore.read`."""
        self._session.check()
        rows = await self._reads.submit(Statement(statements.READ, _key(call)))
        return tuple(self._row(row) for row in rows)

    async def at_position(self, call: CallIdentity) -> list[CallIdentity]:
        """See `AttemptStore.at_position`."""
        self._session.check()
        place = {"scope": call.scope, "entity_key": call.entity_key, "seq": call.seq}
        rows: list[Any] = await self._reads.submit(Statement(statements.AT_POSITION, place))
        return [identity(columns) for columns in rows]

    async def grant(self, call: CallIdentity) -> int | Rows:
        """See `AttemptStore.grant`."""
        self._session.check()
        if not self._heartbeat.was_started:
            await self._beat()
            self._heartbeat.start()
        marks = {"session": self._session.id, "grant_no": next(self._grants)}
        granting = _identity(call) | marks | {"owner": self._session.owner}
        withdrawal = Statement(statements.WITHDRAW, _key(call) | marks, _order(call))
        granted = await self._writes.obtain(Statement(statements.GRANT, granting, _order(call)), withdrawal)
        if granted:
            return int(granted[0][0])
        rows = await self._writes.submit(Statement(statements.READ, _key(call), _order(call)))
        return tuple(self._row(row) for row in rows)

    async def finish(self, intent: Intent, ending: Ending) -> bool:
        """See `AttemptStore.finish`."""
        self._session.check()
        told = _identity(intent.call) | ending._asdict() | {"ordinal": intent.ordinal}
        told |= {"session": self._session.id, "owner": self._session.owner}
        return (True,) in await self._writes.submit(Statement(statements.FINISH, told, _order(intent.call)))

    async def condemn(self, call: CallIdentity, ordinal: int, digest: bytes | None, error_type: str) -> None:
        """See `AttemptStore.condemn`."""
        self._session.check()
        told = _key(call) | {"ordinal": ordinal, "digest": digest, "error_type": error_type}
        await self._writes.submit(Statement(statements.CONDEMN, told, _order(call)))

    async def aclose(self) -> None:
        """See `Journal.aclose`."""
        if self._session.closed:
            return
        self._session.close()
        self._heartbeat.stop()
        await self._reads.drain()
        await self._writes.drain()
        if self._heartbeat.was_started:
            with contextlib.suppress(JournalError):
                await self._writing.run([Statement(statements.FAREWELL, {"session": self._session.id})])
        await self._reading.aclose()
        await self._writing.aclose()

    async def _beat(self) -> None:
        told = {"session": self._session.id, "owner": self._session.owner, "lease_ms": self._terms.lease_ms}
        await self._writes.submit(Statement(statements.BEAT, told))
        if next(self._beats) % _BEATS_PER_PRUNING:
            return
        await self._writes.submit(Statement(statements.CLEAR_SESSIONS, {}))
        if self._terms.ttl_ms is not None:
            limits = {"ttl_ms": self._terms.ttl_ms, "limit": _PRUNED_AT_ONCE}
            text = statements.PRUNE.replace("%(before_ms)s", f"({statements.NOW} - %(ttl_ms)s)")
            await self._writes.submit(Statement(text, limits))

    def _row(self, columns: tuple[Any, ...]) -> AttemptRow:
        row = AttemptRow._make((*columns[:8], None))
        if row.state != INTENT:
            return row
        return row._replace(lease_left_ms=self._session.left_ms(columns[8], columns[9], 0))


def _key(call: CallIdentity) -> dict[str, Any]:
    return {"scope": call.scope, "call_id": call.call_id}


def _order(call: CallIdentity) -> tuple[str, str]:
    return call.scope, call.call_id


def _identity(call: CallIdentity) -> dict[str, Any]:
    return {
        "scope": call.scope,
        "call_id": call.call_id,
        "kind": call.kind,
        "model_id": call.model_id,
        "entity_key": call.entity_key,
        "seq": call.seq,
        "step_index": call.step_index,
        "fingerprint": dump_fingerprint(call.fingerprint),
    }
