"""The `JournalReader` of a journal file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from beam_agents.errors import JournalOpenError
from beam_agents.journals.attempts import INTENT, AttemptRow
from beam_agents.journals.record import (
    EVERYTHING,
    JournalReader,
    JournalRecord,
    PruneReport,
    RecordFacts,
    RecordFilter,
    identity,
    record_of,
)
from beam_agents.journals.sqlite.faults import at_use
from beam_agents.journals.sqlite.owner_lock import owner_is_dead
from beam_agents.journals.sqlite.pruning import delete_calls, prune
from beam_agents.journals.sqlite.schema import SqliteFile, transaction
from beam_agents.journals.stored import Opening

__all__ = ["SqliteReader"]

_PAGE_ROWS = 500

_PAGE = """
SELECT a.id, a.scope, a.call_id, a.entity_key, a.seq, a.step_index, a.model_id, a.kind, a.fingerprint,
    a.ordinal, a.state, a.error_type, a.status, a.usage, a.key_id, a.digest, {response}, a.owner, a.began_ms,
    a.ended_ms, coalesce(length(a.response), 0), a.session, s.lease_until_ms
FROM attempts a LEFT JOIN sessions s ON a.state = 'intent' AND s.id = a.session
WHERE a.id > ?{conditions} ORDER BY a.id LIMIT ?
"""


class SqliteReader:
    """Reads over a connection of its own; opens one for writing only to delete."""

    def __init__(self, opening: Opening) -> None:
        self._file = SqliteFile.of(opening.uri)
        if not self._file.path.is_file():
            raise JournalOpenError(f"{self._file.shown}: there is no journal at {self._file.path}")
        self.shown = self._file.shown
        self._now_ms = opening.now_ms
        self._vault = opening.vault
        self._connection = self._file.reader(check=True)

    async def records(self, where: RecordFilter = EVERYTHING, *, answers: bool = False) -> AsyncIterator[JournalRecord]:
        """See `JournalReader.records`. A page is read at a time, on the caller's thread."""
        conditions = where.conditions()
        text = _PAGE.format(
            response="a.response" if answers else "NULL", conditions="".join(f" AND {text}" for text, _ in conditions)
        )
        values = [value for _, value in conditions]
        page = self._page(text, 0, values)
        while page:
            for columns in page:
                yield self._record(columns, answers=answers)
            page = self._page(text, page[-1][0], values)

    async def prune(self, before_ms: int) -> PruneReport:
        """See `JournalReader.prune`. Gives the freed pages back to the file system."""
        report = PruneReport()
        after: int | None = 0
        with self._altered() as connection:
            while after is not None:
                with transaction(connection):
                    some, after = prune(connection, before_ms, self._now_ms(), after=after)
                report += some
        return report

    async def forget(self, where: RecordFilter) -> PruneReport:
        """See `JournalReader.forget`."""
        calls = {(record.call.scope, record.call.call_id): None async for record in self.records(where)}
        with self._altered() as connection, transaction(connection):
            return delete_calls(connection, list(calls))

    async def size_bytes(self) -> int:
        """Bytes of the database and its write-ahead log."""
        return self._file.size_bytes()

    async def aclose(self) -> None:
        """See `JournalReader.aclose`."""
        self._connection.close()

    def _page(self, text: str, after: int, values: list[object]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(text, (after, *values, _PAGE_ROWS)).fetchall()
        except sqlite3.Error as error:
            raise at_use(self.shown, error) from error

    def _record(self, columns: tuple[Any, ...], *, answers: bool) -> JournalRecord:
        row = AttemptRow._make((*columns[9:17], None))
        if row.state == INTENT:
            row = row._replace(lease_left_ms=self._left_ms(columns[21], columns[22]))
        facts = RecordFacts(*columns[17:21])
        return record_of(identity(columns[1:9]), row, facts, self._vault if answers else None)

    def _left_ms(self, session_id: str, lease_until_ms: int | None) -> float | None:
        left = 0 if lease_until_ms is None else lease_until_ms - self._now_ms()
        return float(left) if left > 0 and not owner_is_dead(self._file.path, session_id) else None

    @contextmanager
    def _altered(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._file.altered() as connection:
                yield connection
        except sqlite3.Error as error:
            raise at_use(self.shown, error) from error


def _sqlite_reader_is_a_reader(reader: SqliteReader) -> JournalReader:
    return reader
