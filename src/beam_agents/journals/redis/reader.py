"""The `JournalReader` of a journal on a Redis server."""

from __future__ import annotations

from collections.abc import AsyncIterator

from beam_agents.journals.attempts import INTENT, AttemptRow
from beam_agents.journals.record import (
    EVERYTHING,
    JournalReader,
    JournalRecord,
    PruneReport,
    RecordFacts,
    RecordFilter,
    record_of,
)
from beam_agents.journals.redis.link import Command, RedisLink
from beam_agents.journals.redis.store import call_of
from beam_agents.journals.stored import Opening
from beam_agents.ports import CallIdentity

__all__ = ["RedisReader"]

_PAGE_KEYS = 200


class RedisReader:
    """Walks the calls by SCAN; a position that is fully named is looked up."""

    def __init__(self, opening: Opening) -> None:
        self.shown = opening.uri.shown
        self._link = RedisLink(opening.uri, opening.vault, makes_new=False)
        self._vault = opening.vault

    async def records(self, where: RecordFilter = EVERYTHING, *, answers: bool = False) -> AsyncIterator[JournalRecord]:
        """See `JournalReader.records`. The order of the calls is the server's."""
        async for _, call, attempts in self._calls(where, answers=answers):
            for attempt in attempts:
                yield self._record(call, attempt, answers=answers)

    async def prune(self, before_ms: int) -> PruneReport:
        """See `JournalReader.prune`. Records also expire by themselves, by the `ttl_h` of who wrote them."""
        return await self._delete(EVERYTHING, before_ms)

    async def forget(self, where: RecordFilter) -> PruneReport:
        """See `JournalReader.forget`."""
        return await self._delete(where, 0)

    async def size_bytes(self) -> int:
        """Memory that the server uses for the calls."""
        size = 0
        async for keys in self._link.pages_of_calls(_PAGE_KEYS):
            size += await self._link.memory_bytes(keys)
        return size

    async def aclose(self) -> None:
        """See `JournalReader.aclose`."""
        await self._link.aclose()

    async def _delete(self, where: RecordFilter, before_ms: int) -> PruneReport:
        report = PruneReport()
        async for key, call, _ in self._calls(where, answers=False):
            command = Command("delete", (key, *self._link.keys(call)[1:]), (before_ms,))
            (deleted,) = await self._link.run([command])
            report += PruneReport(1 if deleted else 0, deleted)
        return report

    async def _calls(
        self, where: RecordFilter, *, answers: bool
    ) -> AsyncIterator[tuple[bytes, CallIdentity, list[list[bytes]]]]:
        seen: set[bytes] = set()
        async for page in self._pages(where):
            keys = [key for key in page if key not in seen]
            seen.update(keys)
            ends = self._link.keys(CallIdentity(""))[1:]
            commands = [Command("summary", (key, *ends), (1 if answers else 0,)) for key in keys]
            for key, (facts, *attempts) in zip(keys, await self._link.run(commands), strict=True):
                call = call_of(facts)
                if call is not None and where.accepts(call):
                    yield key, call, attempts

    async def _pages(self, where: RecordFilter) -> AsyncIterator[list[bytes]]:
        if where.scope is not None and where.entity_key is not None and where.seq is not None:
            place = CallIdentity("", entity_key=where.entity_key, seq=where.seq, scope=where.scope)
            yield await self._link.calls_at(place)
            return
        async for keys in self._link.pages_of_calls(_PAGE_KEYS):
            yield keys

    def _record(self, call: CallIdentity, attempt: list[bytes], *, answers: bool) -> JournalRecord:
        ordinal, state, error, status, usage, key_id, digest, stored, left, owner, began, ended, size, stands = attempt
        row = AttemptRow(
            ordinal=int(ordinal),
            state=state.decode(),  # type: ignore[arg-type]
            error_type=error.decode(),
            status=int(status) if status else None,
            usage=usage.decode(),
            key_id=key_id.decode(),
            digest=digest or None,
            stored=stored if answers and stands == b"1" else None,
        )
        if row.state == INTENT and float(left) > 0:
            row = row._replace(lease_left_ms=float(left))
        facts = RecordFacts(owner.decode(), int(began or 0), int(ended) if ended else None, int(size))
        return record_of(call, row, facts, self._vault if answers else None)


def _redis_reader_is_a_reader(reader: RedisReader) -> JournalReader:
    return reader
