"""The `JournalReader` of a `memory://` journal of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator

from beam_agents.errors import JournalOpenError
from beam_agents.journals.attempts import INTENT
from beam_agents.journals.memory import Attempt, existing_shelf
from beam_agents.journals.record import (
    EVERYTHING,
    JournalReader,
    JournalRecord,
    PruneReport,
    RecordFacts,
    RecordFilter,
    record_of,
)
from beam_agents.journals.stored import Opening

__all__ = ["MemoryReader"]


class MemoryReader:
    """Reads what this process holds."""

    def __init__(self, opening: Opening) -> None:
        shelf = existing_shelf(opening.uri)
        if shelf is None:
            raise JournalOpenError(f"{opening.uri.shown}: this process has no such journal; open_journal makes one")
        self.shown = opening.uri.shown
        self._shelf = shelf
        self._now_ms = opening.now_ms
        self._vault = opening.vault

    async def records(self, where: RecordFilter = EVERYTHING, *, answers: bool = False) -> AsyncIterator[JournalRecord]:
        """See `JournalReader.records`."""
        with self._shelf.lock:
            found = [each for call in self._shelf.calls.values() for each in call if where.accepts(each.call)]
        for attempt in found:
            yield self._record(attempt, answers=answers)

    async def prune(self, before_ms: int) -> PruneReport:
        """See `JournalReader.prune`."""
        return self._shelf.prune(before_ms, self._now_ms())

    async def forget(self, where: RecordFilter) -> PruneReport:
        """See `JournalReader.forget`."""
        return self._shelf.drop(lambda attempts: any(where.accepts(each.call) for each in attempts))

    async def size_bytes(self) -> int:
        """Bytes of the stored answers."""
        with self._shelf.lock:
            return sum(len(each.row.stored or b"") for call in self._shelf.calls.values() for each in call)

    async def aclose(self) -> None:
        """Nothing to release."""

    def _record(self, attempt: Attempt, *, answers: bool) -> JournalRecord:
        row = attempt.row
        if row.state == INTENT:
            left = self._shelf.leases.get(attempt.session_id, 0) - self._now_ms()
            row = row._replace(lease_left_ms=float(left) if left > 0 else None)
        facts = RecordFacts(attempt.owner, attempt.began_ms, attempt.ended_ms, len(row.stored or b""))
        return record_of(attempt.call, row, facts, self._vault if answers else None)


def _memory_reader_is_a_reader(reader: MemoryReader) -> JournalReader:
    return reader
