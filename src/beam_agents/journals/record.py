"""The read side's values: one record a request, and which of them are asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from beam_agents.journals.attempts import CORRUPT, INTENT, LOST, AttemptRow, load_fingerprint, load_usage
from beam_agents.journals.vault import Vault
from beam_agents.ports import CallIdentity
from beam_agents.values import TokenUsage

__all__ = [
    "EVERYTHING",
    "JournalReader",
    "JournalRecord",
    "Outcome",
    "PruneReport",
    "RecordFacts",
    "RecordFilter",
    "identity",
    "record_of",
]

Outcome: TypeAlias = Literal["answered", "failed", "in_doubt", "waiting"]
"""How a request ended; `waiting` while a live owner still waits for its answer."""


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One request on the wire, as the journal knows it.

    Attributes:
        call: scope, position, model and fingerprint of the call that it was made for.
        ordinal: the how manieth request of that call it was, from 1.
        outcome: how it ended.
        error_type: class name of the error; `Lost` when its process died, `Corrupt` when its answer is damaged.
        status: HTTP status of a failure, when one arrived.
        usage: tokens of the answer, when known.
        owner: the process that sent it, for people.
        began_ms, ended_ms: when intent and outcome were recorded.
        stored_bytes: size of the stored answer; 0 without one.
        sealed: whether the stored answer is encrypted.
        response: the answer, when it was asked for and stands.
    """

    call: CallIdentity
    ordinal: int
    outcome: Outcome
    error_type: str = ""
    status: int | None = None
    usage: TokenUsage | None = None
    owner: str = ""
    began_ms: int = 0
    ended_ms: int | None = None
    stored_bytes: int = 0
    sealed: bool = False
    response: bytes | None = None

    @property
    def attempt_id(self) -> str:
        """Id of the request, as in traces and dead letters."""
        return self.call.attempt_id(self.ordinal)


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records are meant: those that agree with every field that is set.

    `call_id` may be the beginning of one. `from_step` takes the calls of that step and after.
    """

    scope: str | None = None
    call_id: str | None = None
    entity_key: bytes | None = None
    seq: int | None = None
    from_step: int | None = None

    def accepts(self, call: CallIdentity) -> bool:
        """Whether records of this call are meant."""
        return (
            self.scope in (None, call.scope)
            and (self.call_id is None or call.call_id.startswith(self.call_id))
            and self.entity_key in (None, call.entity_key)
            and self.seq in (None, call.seq)
            and (self.from_step is None or call.step_index >= self.from_step)
        )

    def conditions(self) -> list[tuple[str, object]]:
        """The same as SQL: conditions with `?` for their one parameter, and the parameter."""
        found: list[tuple[str, object]] = []
        for column in ("scope", "entity_key", "seq"):
            value = getattr(self, column)
            if value is not None:
                found.append((f"{column} = ?", value))
        if self.call_id is not None:
            found.append((f"substr(call_id, 1, {len(self.call_id)}) = ?", self.call_id))
        if self.from_step is not None:
            found.append(("step_index >= ?", self.from_step))
        return found


EVERYTHING = RecordFilter()
"""Accepts every record."""


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was deleted: so many calls, with so many requests between them."""

    calls: int = 0
    attempts: int = 0

    def __add__(self, other: PruneReport) -> PruneReport:
        return PruneReport(self.calls + other.calls, self.attempts + other.attempts)


class JournalReader(Protocol):
    """The journal as its keeper sees it. It owns no intents, and needs no key unless answers are asked for.

    All methods raise `JournalError` when the store cannot serve.
    """

    shown: str

    def records(self, where: RecordFilter = EVERYTHING, *, answers: bool = False) -> AsyncIterator[JournalRecord]:
        """The records that `where` means, those of one call by ordinal; with their answers only when asked."""
        ...

    async def prune(self, before_ms: int) -> PruneReport:
        """Delete the calls whose last change is older than `before_ms`. One with a live intent is kept."""
        ...

    async def forget(self, where: RecordFilter) -> PruneReport:
        """Delete the calls that `where` means, answers included: they will be paid again."""
        ...

    async def size_bytes(self) -> int:
        """What the journal takes: bytes of its files, or of what the server keeps for it."""
        ...

    async def aclose(self) -> None:
        """Release everything. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """What a store keeps of a request beside its row."""

    owner: str
    began_ms: int
    ended_ms: int | None
    stored_bytes: int


def record_of(call: CallIdentity, row: AttemptRow, facts: RecordFacts, vault: Vault | None) -> JournalRecord:
    """A record; with a vault, its answer is opened."""
    outcome: Outcome = row.state if row.state != "intent" else "waiting"
    error_type = row.error_type
    if row.state == INTENT and row.lease_left_ms is None:
        outcome, error_type = "in_doubt", LOST
    response = vault.opened(call, row) if vault is not None and row.stored is not None else None
    if vault is not None and row.stored is not None and response is None:
        error_type = CORRUPT
    return JournalRecord(
        call=call,
        ordinal=row.ordinal,
        outcome=outcome,
        error_type=error_type,
        status=row.status,
        usage=load_usage(row.usage),
        owner=facts.owner,
        began_ms=facts.began_ms,
        ended_ms=facts.ended_ms,
        stored_bytes=facts.stored_bytes,
        sealed=bool(row.key_id),
        response=response,
    )


def identity(kept: tuple[str, str, bytes, int, int, str, str, str]) -> CallIdentity:
    """A call from its stored columns: scope, call_id, entity_key, seq, step_index, model_id, kind, fingerprint."""
    scope, call_id, entity_key, seq, step_index, model_id, kind, fingerprint = kept
    return CallIdentity(
        call_id=call_id,
        entity_key=bytes(entity_key),
        seq=seq,
        step_index=step_index,
        model_id=model_id,
        scope=scope,
        kind="step" if kind == "step" else "call",
        fingerprint=load_fingerprint(fingerprint),
    )
