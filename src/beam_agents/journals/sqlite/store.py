"""The `AttemptStore` in a file: writes on the writer's thread, reads on the caller's own."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

from beam_agents.errors import JournalOpenError
from beam_agents.journals.attempts import INTENT, AttemptRow, Ending
from beam_agents.journals.ownership import Session
from beam_agents.journals.record import identity
from beam_agents.journals.sqlite import statements
from beam_agents.journals.sqlite.faults import at_opening, at_use
from beam_agents.journals.sqlite.owner_lock import sweep
from beam_agents.journals.sqlite.schema import SqliteFile
from beam_agents.journals.sqlite.session_row import SessionRow
from beam_agents.journals.sqlite.writer import GroupCommitWriter, Write
from beam_agents.journals.stored import Opening, Rows
from beam_agents.journals.vault import Vault
from beam_agents.ports import CallIdentity, Intent

__all__ = ["SqliteStore"]

_OPTIONS = ("busy_ms", "key_env", "lease_s", "max_mb", "synchronous", "ttl_h")


class SqliteStore:
    """Attempts in one file, safe for several processes of one host, and for several event loops."""

    def __init__(self, opening: Opening) -> None:
        opening.uri.check_options(_OPTIONS)
        file = SqliteFile.of(opening.uri)
        terms = opening.uri.terms()
        connection, self._reader = _connections(file, opening.vault)
        sweep(file.path)
        self.shown = file.shown
        self._now_ms = opening.now_ms
        self._session = Session(opening.owner, terms)
        self._upkeep = SessionRow(self._session, file.path, opening.now_ms)
        self._writer = GroupCommitWriter(connection, file.shown, self._upkeep, terms.heartbeat_ms / 1000)
        self._abandoned = weakref.finalize(self, _release, self._session, self._writer, self._reader)
        self._abandoned.atexit = False

    async def read(self, call: CallIdentity) -> Rows:
        """See `AttemptStore.read`. A lookup by index on the caller's thread."""
        self._session.check()
        try:
            return self._rows(self._reader, call)
        except sqlite3.Error as error:
            raise at_use(self.shown, error) from error

    async def at_position(self, call: CallIdentity) -> list[CallIdentity]:
        """See `AttemptStore.at_position`."""
        self._session.check()
        try:
            found = self._reader.execute(statements.AT_POSITION, (call.scope, call.entity_key, call.seq)).fetchall()
        except sqlite3.Error as error:
            raise at_use(self.shown, error) from error
        return [identity(columns) for columns in found]

    async def grant(self, call: CallIdentity) -> int | Rows:
        """See `AttemptStore.grant`."""
        self._session.check()
        return await self._writer.obtain(partial(self._grant, call), partial(_withdrawal, call))

    def finish(self, intent: Intent, ending: Ending) -> asyncio.Future[bool]:
        """See `AttemptStore.finish`."""
        self._session.check()
        return self._writer.submit(partial(self._finish, intent, ending))

    def condemn(self, call: CallIdentity, ordinal: int, digest: bytes | None, error_type: str) -> asyncio.Future[None]:
        """See `AttemptStore.condemn`."""
        self._session.check()
        condemned = partial(statements.condemn, call=call, ordinal=ordinal, digest=digest, error_type=error_type)
        return self._writer.submit(condemned)

    async def aclose(self) -> None:
        """See `Journal.aclose`."""
        self._abandoned()
        while not self._writer.stopped.is_set():
            try:
                await asyncio.to_thread(self._writer.stopped.wait)
            except RuntimeError:  # the interpreter is ending and starts no threads any more
                self._writer.stopped.wait()

    def _grant(self, call: CallIdentity, connection: sqlite3.Connection) -> int | Rows:
        session = (self._session.id, self._session.owner)
        if statements.insert_intent(connection, call, 1, session, self._now_ms()):
            return 1
        rows = self._rows(connection, call)
        if any(row.stored is not None or row.lease_left_ms is not None for row in rows):
            return rows
        statements.mark_lost(connection, call, [row.ordinal for row in rows if row.state == INTENT], self._now_ms())
        ordinal = rows[-1].ordinal + 1
        statements.insert_intent(connection, call, ordinal, session, self._now_ms())
        return ordinal

    def _finish(self, intent: Intent, ending: Ending, connection: sqlite3.Connection) -> bool:
        call, ordinal, now_ms = intent.call, intent.ordinal, self._now_ms()
        if ordinal == 1 and statements.answer_first(connection, call, ending, now_ms):
            return True
        if not statements.finish(connection, call, ordinal, ending, now_ms):
            session = (self._session.id, self._session.owner)
            if statements.insert_intent(connection, call, ordinal, session, now_ms):
                statements.finish(connection, call, ordinal, ending, now_ms)
        return ending.stored is not None and statements.stands(connection, call, ordinal)

    def _rows(self, connection: sqlite3.Connection, call: CallIdentity) -> Rows:
        found = connection.execute(statements.ROWS_OF_CALL, (call.scope, call.call_id)).fetchall()
        return tuple(self._leased(row) for row in found)

    def _leased(self, columns: Sequence[Any]) -> AttemptRow:
        row = AttemptRow._make((*columns[:8], None))
        if row.state != INTENT:
            return row
        return row._replace(lease_left_ms=self._upkeep.left_ms(columns[9], columns[8]))


def _connections(file: SqliteFile, vault: Vault) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    writing = file.prepare()
    try:
        _agree_on_key(writing, vault, file.shown)
        return writing, file.reader(check=False)
    except sqlite3.Error as error:
        writing.close()
        raise at_opening(file.shown, error) from error
    except JournalOpenError:
        writing.close()
        raise


def _withdrawal(call: CallIdentity, granted: int | Rows) -> Write[None] | None:
    if not isinstance(granted, int):
        return None
    return partial(statements.withdraw, call=call, ordinal=granted)


def _release(session: Session, writer: GroupCommitWriter, reader: sqlite3.Connection) -> None:
    session.close()
    reader.close()  # before the writer's connection: the last one to close empties the write-ahead log
    writer.stop()


def _agree_on_key(connection: sqlite3.Connection, vault: Vault, shown: str) -> None:
    kept = connection.execute("SELECT value FROM meta WHERE name = 'key_id'").fetchone()
    vault.require(kept[0] if kept else "", shown)
    if vault.key_id and (kept is None or kept[0] != vault.key_id):
        connection.execute(
            "INSERT INTO meta VALUES ('key_id', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (vault.key_id,),
        )
