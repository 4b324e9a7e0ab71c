"""The `JournalReader` of a journal in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from beam_agents.errors import JournalError
from beam_agents.journals.attempts import INTENT, AttemptRow
from beam_agents.journals.postgresql import statements
from beam_agents.journals.postgresql.link import PostgresqlLink
from beam_agents.journals.postgresql.statements import Statement
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
from beam_agents.journals.stored import Opening

__all__ = ["PostgresqlReader"]

_PAGE_ROWS = 500
_PRUNED_AT_ONCE = 1000


class PostgresqlReader:
    """Reads in pages, in the order of scope, call and ordinal."""

    def __init__(self, opening: Opening) -> None:
        self.shown = opening.uri.shown
        self._link = PostgresqlLink(opening.uri, opening.vault, makes_new=False)
        self._vault = opening.vault

    async def records(self, where: RecordFilter = EVERYTHING, *, answers: bool = False) -> AsyncIterator[JournalRecord]:
        """See `JournalReader.records`."""
        conditions, values = _conditions(where)
        text = statements.page(conditions, answers=answers)
        place: dict[str, Any] = {"scope": "", "call_id": "", "ordinal": 0, "limit": _PAGE_ROWS}
        page = await self._rows(Statement(text, values | _named(place)))
        while page:
            for columns in page:
                yield self._record(columns, answers=answers)
            place |= {"scope": page[-1][0], "call_id": page[-1][1], "ordinal": page[-1][8]}
            page = await self._rows(Statement(text, values | _named(place)))

    async def prune(self, before_ms: int) -> PruneReport:
        """See `JournalReader.prune`."""
        report, calls = PruneReport(), 1
        while calls:
            told = {"before_ms": before_ms, "limit": _PRUNED_AT_ONCE}
            ((calls, attempts),) = await self._rows(Statement(statements.PRUNE, told))
            report += PruneReport(calls, attempts)
        return report

    async def forget(self, where: RecordFilter) -> PruneReport:
        """See `JournalReader.forget`."""
        conditions, values = _conditions(where)
        ((calls, attempts),) = await self._rows(Statement(statements.forget(conditions), values))
        return PruneReport(calls, attempts)

    async def size_bytes(self) -> int:
        """Bytes of the tables and their indexes."""
        ((size,),) = await self._rows(Statement(statements.SIZE, {}))
        return int(size)

    async def aclose(self) -> None:
        """See `JournalReader.aclose`."""
        await self._link.aclose()

    async def _rows(self, statement: Statement) -> list[tuple[Any, ...]]:
        (rows,) = await self._link.run([statement])
        if isinstance(rows, JournalError):
            raise rows
        found: list[tuple[Any, ...]] = rows
        return found

    def _record(self, columns: tuple[Any, ...], *, answers: bool) -> JournalRecord:
        row = AttemptRow._make((*columns[8:16], None))
        if row.state == INTENT and columns[20]:
            row = row._replace(lease_left_ms=1.0)
        call = identity(columns[:8])
        return record_of(call, row, RecordFacts(*columns[16:20]), self._vault if answers else None)


def _conditions(where: RecordFilter) -> tuple[str, dict[str, Any]]:
    found = where.conditions()
    text = "".join(f" AND {condition.replace('?', f'%(w{i})s')}" for i, (condition, _) in enumerate(found))
    return text, {f"w{i}": value for i, (_, value) in enumerate(found)}


def _named(place: dict[str, Any]) -> dict[str, Any]:
    return {f"after_{name}": value for name, value in place.items()}


def _postgresql_reader_is_a_reader(reader: PostgresqlReader) -> JournalReader:
    return reader
