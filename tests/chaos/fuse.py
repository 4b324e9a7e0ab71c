"""Doubles that strike at the n-th await point of the facade: journal, client and sleeper in one numbering."""

from __future__ import annotations

import asyncio
from typing import Literal

from beam_agents.errors import ConnectionBroken, JournalError, ServerError
from beam_agents.ports import (
    AttemptOutcome,
    CallIdentity,
    Intent,
    Journal,
    JournaledAnswer,
    JournalFinding,
    SetAside,
    current_call,
)
from beam_agents.testing import ManualClock
from beam_agents.values import LlmRequest, LlmResponse, TokenUsage
from tests.chaos.books import Entry
from tests.chaos.endpoint import prompt_digest

__all__ = ["Blow", "Fuse", "FusedClient", "FusedJournal", "FusedSleep", "Server"]

Blow = Literal["kill", "cancel", "fail"]
"""The process dies; its task is cancelled; the journal fails, where the point is one of the journal's."""


class Fuse:
    """Counts await points and strikes at the `at`-th. A process that is `dead` gets past none any more.

    `victim` is the task that a cancellation strikes.
    """

    def __init__(self, at: int | None = None, blow: Blow = "kill") -> None:
        self.at = at
        self.blow = blow
        self.passed: list[str] = []
        self.struck_at = ""
        self.struck = asyncio.Event()
        self.victim: asyncio.Future[object] | None = None
        self.dead = False

    async def point(self, name: str, *, may_fail: bool = False) -> None:
        """One await point. `may_fail` marks those where a journal may raise."""
        self.passed.append(name)
        if not self.dead and not self.struck_at and self.at is not None and len(self.passed) >= self.at:
            await self._strike(name, may_fail)
        if self.dead:
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    async def _strike(self, name: str, may_fail: bool) -> None:
        if self.blow == "fail" and not may_fail:
            return
        self.struck_at = name
        self.struck.set()
        if self.blow == "kill":
            self.dead = True
        elif self.blow == "fail":
            raise JournalError(f"struck at {name}")
        elif self.victim is not None:
            self.victim.cancel()


class FusedJournal:
    """A journal with a point before and after each of its effects."""

    def __init__(self, journal: Journal, fuse: Fuse) -> None:
        self._journal = journal
        self._fuse = fuse

    async def find(self, call: CallIdentity) -> JournalFinding:
        await self._fuse.point("before find", may_fail=True)
        found = await self._journal.find(call)
        await self._fuse.point("after find", may_fail=True)
        return found

    async def begin(self, call: CallIdentity) -> Intent | JournalFinding:
        await self._fuse.point("before begin", may_fail=True)
        return await self._journal.begin(call)  # no point after it: cancelled, a journal leaves no intent behind

    async def others_at(self, call: CallIdentity) -> tuple[CallIdentity, ...]:
        await self._fuse.point("before others_at", may_fail=True)
        return await self._journal.others_at(call)

    async def set_aside(self, call: CallIdentity) -> tuple[SetAside, ...]:
        await self._fuse.point("before set_aside", may_fail=True)
        return await self._journal.set_aside(call)

    async def record_answer(self, intent: Intent, response: bytes, usage: TokenUsage | None) -> JournaledAnswer | None:
        await self._fuse.point("before record_answer", may_fail=True)
        standing = await self._journal.record_answer(intent, response, usage)
        await self._fuse.point("after record_answer", may_fail=True)
        return standing

    async def record_failure(
        self, intent: Intent, outcome: AttemptOutcome, error_type: str, status: int | None = None
    ) -> None:
        await self._fuse.point("before record_failure", may_fail=True)
        await self._journal.record_failure(intent, outcome, error_type, status)
        await self._fuse.point("after record_failure", may_fail=True)

    async def aclose(self) -> None:
        await self._journal.aclose()


class Server:
    """The endpoint's side: its ledger, and what becomes of each request for a call, in order."""

    def __init__(self, script: dict[str, list[str]]) -> None:
        self.ledger: list[Entry] = []
        self._script = {subject: list(kinds) for subject, kinds in script.items()}

    def serve(self, request: LlmRequest) -> Entry:
        """Count a request and say what becomes of it."""
        call, content = current_call.get(), str(request.messages[-1]["content"])
        assert call is not None
        subject = content.partition("\n")[0]
        kinds = self._script.get(subject) or ["answered"]
        kind, serial = kinds.pop(0), len(self.ledger) + 1
        usage = (10 + serial, 1) if kind != "broken" else (0, 0)
        status = 503 if kind == "broken" else None
        prompt = prompt_digest([dict(one) for one in request.messages])  # type: ignore[arg-type]
        self.ledger.append(Entry(serial, call.call_id, subject, prompt, kind, status, *usage, 0.0, 0.0, False))
        return self.ledger[-1]


class FusedClient:
    """One request for each call, with a point on its way there and one on its way back."""

    provider_name = "fused"

    def __init__(self, server: Server, fuse: Fuse) -> None:
        self._server = server
        self._fuse = fuse

    async def complete(self, request: LlmRequest) -> LlmResponse:
        await self._fuse.point("before the request")
        entry = self._server.serve(request)
        await self._fuse.point("while the request is in flight")
        if entry.kind == "broken":
            raise ServerError(503)
        if entry.kind == "cut":
            raise ConnectionBroken("cut")
        return LlmResponse(f"answer {entry.serial} {entry.input_tokens}".encode())


class FusedSleep:
    """Moves the clock on instead of waiting."""

    def __init__(self, clock: ManualClock, fuse: Fuse) -> None:
        self._clock = clock
        self._fuse = fuse

    async def __call__(self, ms: float) -> None:
        await self._fuse.point("before a wait")
        self._clock.advance(ms)
