"""Parts that several facade tests use beside the public doubles."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

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
from beam_agents.values import LlmRequest, LlmResponse, TokenUsage


async def settle() -> None:
    """Let every task go as far as it can without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)


class GatedLLM:
    """A client whose every call waits until `gate` is set; then plays the next of `outcomes` (the last one stays)."""

    def __init__(self, *outcomes: bytes | BaseException) -> None:
        self.gate = asyncio.Event()
        self.requests: list[LlmRequest] = []
        self._outcomes = list(outcomes)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.requests.append(request)
        await self.gate.wait()
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return LlmResponse(outcome)


class ScriptedLLM(GatedLLM):
    """A client that plays its outcomes one after the other."""

    def __init__(self, *outcomes: bytes | BaseException) -> None:
        super().__init__(*outcomes)
        self.gate.set()


@dataclass
class NoteJournal:
    """A `Journal` in plain dicts that notes every operation in `notes` and fails where it is told to.

    `faults` maps an operation to errors that its next runs raise. `busy` is what `find` and `begin` report for
    calls that another worker holds.
    """

    notes: list[str] = field(default_factory=list)
    faults: dict[str, list[BaseException]] = field(default_factory=dict)
    busy: list[JournalFinding] = field(default_factory=list)
    answers: dict[tuple[str, str], JournaledAnswer] = field(default_factory=dict)
    past: dict[tuple[str, str], dict[int, PastAttempt]] = field(default_factory=lambda: defaultdict(dict))
    open: dict[tuple[str, str], int] = field(default_factory=dict)
    usages: list[TokenUsage | None] = field(default_factory=list)
    others: tuple[CallIdentity, ...] = ()
    on_operation: Callable[[str], None] = lambda operation: None

    async def find(self, call: CallIdentity) -> JournalFinding:
        await self._note("find")
        return self.busy.pop(0) if self.busy else self._finding(call)

    async def others_at(self, call: CallIdentity) -> tuple[CallIdentity, ...]:
        return self.others

    async def begin(self, call: CallIdentity) -> Intent | JournalFinding:
        await self._note("begin")
        key = _key(call)
        if key in self.answers or key in self.open:
            return self._finding(call)
        ordinal = max(self.past[key], default=0) + 1
        self.open[key] = ordinal
        return Intent(call, ordinal)

    async def set_aside(self, call: CallIdentity) -> tuple[SetAside, ...]:
        raise AssertionError("a facade gives nothing up")

    async def record_answer(self, intent: Intent, response: bytes, usage: TokenUsage | None) -> JournaledAnswer | None:
        await self._note("record_answer")
        key = _key(intent.call)
        self.open.pop(key, None)
        self.usages.append(usage)
        self.past[key][intent.ordinal] = PastAttempt(intent.ordinal, "answered")
        own = JournaledAnswer(response, sha256(response).digest(), intent.ordinal)
        standing = self.answers.setdefault(key, own)
        return None if standing.ordinal == own.ordinal else standing

    async def record_failure(
        self, intent: Intent, outcome: AttemptOutcome, error_type: str, status: int | None = None
    ) -> None:
        await self._note("record_failure")
        self.open.pop(_key(intent.call), None)
        self.past[_key(intent.call)][intent.ordinal] = PastAttempt(intent.ordinal, outcome, error_type, status)

    async def aclose(self) -> None:
        await self._note("aclose")

    def lose(self, call: CallIdentity, ordinal: int = 1) -> None:
        """As if a process had died with this request in flight."""
        self.past[_key(call)][ordinal] = PastAttempt(ordinal, "in_doubt", "Lost")

    async def _note(self, operation: str) -> None:
        self.notes.append(operation)
        self.on_operation(operation)
        await asyncio.sleep(0)
        if self.faults.get(operation):
            raise self.faults[operation].pop(0)

    def _finding(self, call: CallIdentity) -> JournalFinding:
        key = _key(call)
        past = tuple(self.past[key][ordinal] for ordinal in sorted(self.past[key]))
        return JournalFinding(self.answers.get(key), past, 1_000.0 if key in self.open else None)


def _key(call: CallIdentity) -> tuple[str, str]:
    return call.scope, call.call_id


def _note_journal_is_a_journal(journal: NoteJournal) -> Journal:
    return journal
