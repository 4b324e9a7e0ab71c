"""The `Journal` port over a store of attempts: what is the same for every backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import NoReturn, Protocol, TypeAlias

from beam_agents.errors import JournalError
from beam_agents.journals.attempts import CORRUPT, INTENT, LOST, SET_ASIDE, AttemptRow, Ending, load_usage
from beam_agents.journals.record import JournalReader, JournalRecord, PruneReport, RecordFilter
from beam_agents.journals.uri import JournalUri
from beam_agents.journals.vault import Vault
from beam_agents.ports import (
    AttemptOutcome,
    CallIdentity,
    Clock,
    Intent,
    Journal,
    JournaledAnswer,
    JournalFinding,
    PastAttempt,
    SetAside,
)
from beam_agents.values import TokenUsage

__all__ = ["AttemptStore", "Opening", "Rows", "StoredJournal"]

Rows: TypeAlias = tuple[AttemptRow, ...]
"""Every attempt of one call, by ordinal."""

_NOTHING = JournalFinding()
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Opening:
    """What a store is opened with: where it is, who asks (`None`: this process), by which clock, with which keys."""

    uri: JournalUri
    owner: str | None
    now_ms: Clock
    vault: Vault


class AttemptStore(Protocol):
    """Rows of attempts. Every change is atomic and durable before its awaitable is done.

    All raise `JournalError` when the store cannot serve; nothing is changed then.
    """

    shown: str

    def read(self, call: CallIdentity) -> Awaitable[Rows]:
        """The rows of a call. Writes nothing."""
        ...

    def grant(self, call: CallIdentity) -> Awaitable[int | Rows]:
        """Insert the next intent and give its ordinal, or the rows if an answer or a live intent is there.

        Intents of dead owners become in doubt and lost. A grant whose caller was cancelled is withdrawn.
        """
        ...

    def at_position(self, call: CallIdentity) -> Awaitable[list[CallIdentity]]:
        """Every call with scope, entity key and seq of `call`, oldest first; one may come more than once."""
        ...

    def finish(self, intent: Intent, ending: Ending) -> Awaitable[bool]:
        """Record how a request ended, and give whether its bytes are the answer that stands.

        An answered row stays as it is. Of a second answer only usage is kept, not its bytes. A failure changes only
        an intent, or a row that was taken for lost. A missing row is inserted.
        """
        ...

    def condemn(self, call: CallIdentity, ordinal: int, digest: bytes | None, error_type: str) -> Awaitable[None]:
        """Drop the bytes of an answer that carries `digest`; the row stays, answered, with `error_type`."""
        ...

    async def aclose(self) -> None: ...


class StoredJournal:
    """A `Journal` over any `AttemptStore`. It cannot be pickled: give the URI to where it is needed."""

    def __init__(self, store: AttemptStore, vault: Vault, open_reader: Callable[[], JournalReader]) -> None:
        self._store = store
        self._vault = vault
        self._open_reader = open_reader
        self._opened_reader: JournalReader | None = None

    def __repr__(self) -> str:
        return f"<journal {self._store.shown}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a journal holds connections and cannot be pickled; pass its URI and open it there")

    async def find(self, call: CallIdentity) -> JournalFinding:
        """See `Journal.find`."""
        return self._finding(call, await self._store.read(call))

    async def begin(self, call: CallIdentity) -> Intent | JournalFinding:
        """See `Journal.begin`."""
        for _ in range(_TRIES):
            granted = await self._store.grant(call)
            if isinstance(granted, int):
                return Intent(call, granted)
            finding = self._finding(call, granted)
            if finding.answer is not None or finding.busy_for_ms is not None:
                return finding
            await self._condemn_damaged(call, granted)
        raise JournalError(f"{self._store.shown}: no intent could be recorded in {_TRIES} tries; try again")

    async def others_at(self, call: CallIdentity) -> tuple[CallIdentity, ...]:
        """See `Journal.others_at`."""
        found = await self._store.at_position(call)
        if not found:
            return ()
        step = (call.kind, call.step_index)
        others = {each.call_id: each for each in reversed(found) if (each.kind, each.step_index) == step}
        return tuple(each for call_id, each in others.items() if call_id != call.call_id)

    async def set_aside(self, call: CallIdentity) -> tuple[SetAside, ...]:
        """See `Journal.set_aside`."""
        found = await self._store.at_position(call)
        calls = {each.call_id: each for each in found if each.step_index >= call.step_index}
        return tuple([one for each in calls.values() for one in await self._given_up(each)])

    async def record_answer(self, intent: Intent, response: bytes, usage: TokenUsage | None) -> JournaledAnswer | None:
        """See `Journal.record_answer`."""
        ending = self._vault.answer(intent.call, intent.ordinal, response, usage)
        if await self._store.finish(intent, ending):
            return None
        standing = (await self.find(intent.call)).answer
        return None if standing is None or standing.ordinal == intent.ordinal else standing

    async def record_failure(
        self, intent: Intent, outcome: AttemptOutcome, error_type: str, status: int | None = None
    ) -> None:
        """See `Journal.record_failure`."""
        if outcome == "answered":
            raise ValueError("a request that was answered is recorded with record_answer")
        await self._store.finish(intent, Ending(outcome, error_type, status))

    async def aclose(self) -> None:
        """See `Journal.aclose`."""
        if self._opened_reader is not None:
            await self._opened_reader.aclose()
        await self._store.aclose()

    async def history(self, scope: str, entity_key: bytes, seq: int) -> tuple[JournalRecord, ...]:
        """Every request that was made at this position, by whatever call; without their answers."""
        where = RecordFilter(scope=scope, entity_key=entity_key, seq=seq)
        return tuple([record async for record in self._reader.records(where)])

    async def forget(self, where: RecordFilter) -> PruneReport:
        """Delete the calls that `where` means, answers included: they will be paid again."""
        return await self._reader.forget(where)

    @property
    def _reader(self) -> JournalReader:
        if self._opened_reader is None:
            self._opened_reader = self._open_reader()
        return self._opened_reader

    async def _condemn_damaged(self, call: CallIdentity, rows: Rows) -> None:
        for row in rows:
            if row.stored is not None:
                await self._store.condemn(call, row.ordinal, row.digest, CORRUPT)

    async def _given_up(self, call: CallIdentity) -> list[SetAside]:
        rows = await self._store.read(call)
        for row in rows:
            if row.stored is not None:
                await self._store.condemn(call, row.ordinal, row.digest, SET_ASIDE)
        given_up = [row for row in rows if row.stored is not None or row.error_type == SET_ASIDE]
        return [SetAside(call, row.ordinal, load_usage(row.usage)) for row in given_up]

    def _finding(self, call: CallIdentity, rows: Rows) -> JournalFinding:
        if not rows:
            return _NOTHING
        answer: JournaledAnswer | None = None
        busy_for_ms: float | None = None
        past: list[PastAttempt] = []
        for row in rows:
            if row.state == INTENT and row.lease_left_ms is not None:
                busy_for_ms = max(busy_for_ms or 0.0, row.lease_left_ms)
                continue
            if row.stored is not None:
                answer = answer or self._answer(call, row)
            past.append(_past(row, damaged=row.stored is not None and answer is None))
        return JournalFinding(answer, tuple(past), None if answer else busy_for_ms)

    def _answer(self, call: CallIdentity, row: AttemptRow) -> JournaledAnswer | None:
        response = self._vault.opened(call, row)
        if response is None:
            return None
        return JournaledAnswer(response, sha256(response).digest(), row.ordinal)


def _past(row: AttemptRow, *, damaged: bool) -> PastAttempt:
    if row.state == "intent":
        return PastAttempt(row.ordinal, "in_doubt", LOST)
    usage = load_usage(row.usage) if damaged or row.stored is None else None
    return PastAttempt(row.ordinal, row.state, CORRUPT if damaged else row.error_type, row.status, usage)


def _stored_journal_is_a_journal(journal: StoredJournal) -> Journal:
    return journal
