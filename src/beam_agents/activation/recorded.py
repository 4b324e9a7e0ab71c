"""A journal that only remembers: what was recorded at one position, and nothing that is not."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NoReturn, TypeAlias

from beam_agents.errors import (
    ConnectionBroken,
    EndpointUnreachable,
    ProviderRequestError,
    ProviderTimeout,
    RateLimitError,
    ResponseDecodeError,
    ServerError,
    UnreadableAnswer,
)
from beam_agents.journals import CORRUPT, LOST, JournalRecord
from beam_agents.model.fingerprint import changed_fields
from beam_agents.model.journaling import WITHDRAWN
from beam_agents.ports import (
    AttemptOutcome,
    CallIdentity,
    Intent,
    Journal,
    JournaledAnswer,
    JournalFinding,
    PastAttempt,
    SetAside,
)
from beam_agents.values import TokenUsage

__all__ = ["Lookup", "NotInJournalError", "RecordedFailureError", "RecordedJournal", "Source"]

Source: TypeAlias = Literal["journal", "failure", "stand_in", "diverged", "missing"]
"""Where a call's end came from.

`journal`: its answer. `failure`: its recorded error. `stand_in`: the answer of another call at that step.
`diverged`: nowhere, the journal knows another call there. `missing`: nowhere.
"""

_UNTOLD = (LOST, WITHDRAWN, "CancelledError")


class NotInJournalError(Exception):
    """A call or step that the journal has no end of; nothing was sent and nothing was run."""


class RecordedFailureError(Exception):
    """A failure as the journal knows it: by the name of its class alone."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What came of looking for one call.

    Attributes:
        call: the call that was asked for.
        source: where its end came from.
        record: the record that it came from, or that says why there is none.
        changed: for `diverged` and `stand_in`, the parts of the request that differ, as far as is known.
    """

    call: CallIdentity
    source: Source
    record: JournalRecord | None = None
    changed: tuple[str, ...] = ()


class RecordedJournal:
    """A `Journal` of the records of one position. It takes nothing in and lets nothing be sent.

    A call that failed for good fails again, with an error of the recorded class. With `stand_ins` a model call
    that is not known gets the latest answer of its step.
    """

    def __init__(self, records: Iterable[JournalRecord], *, stand_ins: bool = False) -> None:
        self.records = tuple(sorted(records, key=lambda record: (record.began_ms, record.ordinal)))
        self.lookups: dict[tuple[str, int], Lookup] = {}
        self.borrowed: set[bytes] = set()
        self._stand_ins = stand_ins

    async def find(self, call: CallIdentity) -> JournalFinding:
        """See `Journal.find`."""
        lookup = self._looked_up(call)
        self.lookups.setdefault((call.kind, call.step_index), lookup)
        record = lookup.record
        if record is None or lookup.source not in ("journal", "stand_in", "failure"):
            return JournalFinding()
        if record.response is not None:
            digest = sha256(record.response).digest()
            if lookup.source == "stand_in":
                self.borrowed.add(digest)
            return JournalFinding(JournaledAnswer(record.response, digest, record.ordinal))
        return JournalFinding(past=(PastAttempt(record.ordinal, "failed", record.error_type, record.status),))

    async def begin(self, call: CallIdentity) -> Intent | JournalFinding:
        """Raises: what the journal knows no answer of is not asked for."""
        lookup = self._looked_up(call)
        if lookup.source == "failure" and lookup.record is not None:
            raise _error_of(lookup.record)
        raise NotInJournalError(f"{call.kind} {call.step_index} is not in the journal, and a replay sends nothing")

    async def others_at(self, call: CallIdentity) -> tuple[CallIdentity, ...]:
        """See `Journal.others_at`."""
        return tuple(dict.fromkeys(record.call for record in self._at_step(call) if record.call != call))

    async def set_aside(self, call: CallIdentity) -> tuple[SetAside, ...]:
        """Never reached: a replay starts no activation again."""
        _refuse(call)

    async def record_answer(self, intent: Intent, response: bytes, usage: TokenUsage | None) -> JournaledAnswer | None:
        """Never reached: no intent is granted."""
        _refuse(intent, response, usage)

    async def record_failure(
        self, intent: Intent, outcome: AttemptOutcome, error_type: str, status: int | None = None
    ) -> None:
        """Never reached: no intent is granted."""
        _refuse(intent, outcome, error_type, status)

    async def aclose(self) -> None:
        """Nothing to release."""

    def _looked_up(self, call: CallIdentity) -> Lookup:
        own = [
            record for record in self.records if (record.call.kind, record.call.call_id) == (call.kind, call.call_id)
        ]
        answered = next((record for record in own if record.response is not None), None)
        if answered is not None:
            return Lookup(call, "journal", answered)
        if own:
            return Lookup(call, "failure" if _is_told(own[-1]) else "missing", own[-1])
        there = self._at_step(call)
        if not there:
            return Lookup(call, "missing")
        then = there[0].call.fingerprint
        changed = changed_fields(then, call.fingerprint) if then else ()
        stand_in = next((record for record in there if record.response is not None), None)
        if self._stand_ins and call.kind == "call" and stand_in is not None:
            return Lookup(call, "stand_in", stand_in, changed)
        return Lookup(call, "diverged", there[0], changed)

    def _at_step(self, call: CallIdentity) -> list[JournalRecord]:
        """The records of this step, the latest first."""
        step = (call.kind, call.step_index)
        return [record for record in reversed(self.records) if (record.call.kind, record.call.step_index) == step]


def _is_told(record: JournalRecord) -> bool:
    """Whether the record says with which error its call ended."""
    return record.outcome in ("failed", "in_doubt") and record.error_type not in (*_UNTOLD, "", CORRUPT)


def _error_of(record: JournalRecord) -> Exception:
    make = _ERRORS.get(record.error_type)
    if make is not None:
        return make(record.status)
    cls = getattr(builtins, record.error_type, None)
    said = f"{record.error_type}, as the journal recorded it; its message was not kept"
    if record.call.kind == "step" and isinstance(cls, type) and issubclass(cls, Exception):
        return _made(cls, said)
    return RecordedFailureError(said)


def _made(cls: type[Exception], said: str) -> Exception:
    try:
        return cls(said)
    except TypeError:  # such as UnicodeDecodeError, which needs more
        return RecordedFailureError(said)


_ERRORS: dict[str, Callable[[int | None], Exception]] = {
    "ConnectionBroken": lambda _: ConnectionBroken(),
    "EndpointUnreachable": lambda _: EndpointUnreachable(),
    "ProviderRequestError": ProviderRequestError,
    "ProviderTimeout": lambda status: ProviderTimeout(status=status),
    "RateLimitError": lambda status: RateLimitError(status=status),
    "ResponseDecodeError": lambda _: ResponseDecodeError("an answer without the promised shape; it was not kept"),
    "ServerError": ServerError,
    "UnreadableAnswer": UnreadableAnswer,
}


def _refuse(*_: object) -> NoReturn:
    raise AssertionError("a replay granted no intent")


def _recorded_journal_is_a_journal(journal: RecordedJournal) -> Journal:
    return journal
