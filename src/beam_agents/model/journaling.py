"""The facade's side of the journal: durable or not at all, for as long as the deadline allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from beam_agents.errors import AnswerNotJournaledError, DivergenceError, InDoubtError, JournalError, JournalOpenError
from beam_agents.model.call_record import status_of
from beam_agents.model.fingerprint import changed_fields
from beam_agents.notices import Notice, notices
from beam_agents.ports import (
    AttemptOutcome,
    CallIdentity,
    Clock,
    DivergencePolicy,
    InDoubtPolicy,
    Intent,
    Journal,
    JournaledAnswer,
    JournalFinding,
    SetAside,
    Sleep,
)
from beam_agents.values import LlmResponse, TokenUsage

__all__ = ["WITHDRAWN", "Journaling"]

WITHDRAWN: Final = "Withdrawn"
"""Error type of a request that was not sent, because others were made between look-up and intent."""

_T = TypeVar("_T")

_FIRST_PAUSE_MS = 20.0
_LONGEST_PAUSE_MS = 500.0
_NAMED_FIELDS = 8
_BACKGROUND_TRIES = 1_000

_unfinished: set[asyncio.Task[None]] = set()


@dataclass(slots=True)
class Journaling:
    """Retries a failing journal until the deadline; waits for answers that another worker is fetching."""

    journal: Journal
    now_ms: Clock
    sleep: Sleep
    deadline_ms: float | None
    on_in_doubt: InDoubtPolicy = "repay"
    on_divergence: DivergencePolicy = "warn"

    async def look_up(self, call: CallIdentity) -> JournalFinding:
        """What is known about `call`, if it is answered or may be paid for. Raises as `settled`, `require_payable`."""
        finding = await self.settled(call)
        self.require_payable(call, finding)
        return finding

    async def settled(self, call: CallIdentity) -> JournalFinding:
        """What is known about `call`, once no live owner is at work on it any more.

        Raises:
            JournalError: when the journal fails, or the other owner is still at work, at the deadline.
        """
        finding = await self._insist(lambda: self.journal.find(call))
        pause_ms = _FIRST_PAUSE_MS
        while finding.answer is None and finding.busy_for_ms is not None:
            if not self._may_wait(pause_ms):
                raise JournalError("another worker was still waiting for this answer at the deadline")
            await self.sleep(min(pause_ms, max(finding.busy_for_ms, 1.0)))
            pause_ms = min(pause_ms * 2, _LONGEST_PAUSE_MS)
            finding = await self._insist(lambda: self.journal.find(call))
        return finding

    def require_payable(self, call: CallIdentity, finding: JournalFinding) -> None:
        """Raises `InDoubtError` when there is no answer and a lost request forbids a new one under the policy."""
        lost = tuple(call.attempt_id(one.ordinal) for one in finding.past if one.lost)
        if finding.answer is not None or not lost:
            return
        self._tell("call_in_doubt", request=",".join(lost), cause="its process ended", then=self.on_in_doubt)
        if self.on_in_doubt != "repay":
            raise InDoubtError(lost, deferred=self.on_in_doubt == "defer")

    async def changed_since(self, call: CallIdentity) -> tuple[str, ...]:
        """Parts of the request that differ from what an earlier run asked at this position; empty when none did.

        Raises `DivergenceError` when the policy forbids to pay for the new request.
        """
        others = await self._insist(lambda: self.journal.others_at(call))
        if not others:
            return ()
        changed = changed_fields(others[0].fingerprint, call.fingerprint)[:_NAMED_FIELDS]
        if changed:
            then = "repay" if self.on_divergence == "warn" else "fail"
            self._tell(
                "divergence",
                call=call.call_id,
                seq=call.seq,
                step=call.step_index,
                changed=",".join(changed),
                then=then,
            )
            if self.on_divergence != "warn":
                raise DivergenceError(changed)
        return changed

    async def set_aside(self, call: CallIdentity) -> tuple[SetAside, ...]:
        """Give up every answer at the position of `call` from its step on. Raises `JournalError`."""
        return await self._insist(lambda: self.journal.set_aside(call))

    async def begin(self, call: CallIdentity, known: int) -> Intent | JournalFinding:
        """A durable intent, or what came first: then look up again. Raises `JournalError`: then nothing may be sent.

        `known` is the ordinal of the latest request that the caller knows of. Of requests after that one nobody has
        judged yet whether they forbid another: the intent is given up.
        """
        begun = await self._insist(lambda: self.journal.begin(call))
        if isinstance(begun, JournalFinding) or begun.ordinal <= known + 1:
            return begun
        await self._to_the_end(lambda: self.journal.record_failure(begun, "failed", WITHDRAWN))
        return JournalFinding()

    async def record_answer(
        self, intent: Intent, response: LlmResponse, usage: TokenUsage | None
    ) -> JournaledAnswer | None:
        """Make the answer durable, and give the one that stands where another was first.

        Raises `AnswerNotJournaledError` with the bytes when that cannot be done.
        """

        def write() -> Awaitable[JournaledAnswer | None]:
            return self.journal.record_answer(intent, response.response, usage)

        try:
            return await self._insist(write)
        except JournalError as error:
            self._in_background(write)
            raise AnswerNotJournaledError(
                f"an answer of {len(response.response)} bytes was paid but could not be journaled: {error}",
                response=response.response,
                usage=usage,
                attempt_id=intent.call.attempt_id(intent.ordinal),
            ) from error
        except BaseException:
            self._in_background(write)
            raise

    async def record_failure(self, intent: Intent, outcome: AttemptOutcome, error: BaseException) -> None:
        """Record how a request without an answer ended; the next one may not be sent before that is durable.

        Raises `JournalError` when that cannot be done. On cancellation it is finished in the background.
        """

        def write() -> Awaitable[None]:
            return self.journal.record_failure(intent, outcome, type(error).__name__, status_of(error))

        if not isinstance(error, Exception):
            self._in_background(write)
            return
        await self._to_the_end(write)

    async def _to_the_end(self, write: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._insist(write)
        except BaseException:
            self._in_background(write)
            raise

    async def _insist(self, operation: Callable[[], Awaitable[_T]]) -> _T:
        pause_ms = _FIRST_PAUSE_MS
        while True:
            try:
                return await operation()
            except JournalOpenError:
                raise
            except JournalError as error:
                if self.deadline_ms is None or not self._may_wait(pause_ms):
                    raise
                if pause_ms == _FIRST_PAUSE_MS:
                    self._tell("journal_failing", error=error, then="retry until the deadline")
            await self.sleep(pause_ms)
            pause_ms = min(pause_ms * 2, _LONGEST_PAUSE_MS)

    def _tell(self, what: Notice, **fields: Any) -> None:
        notices.tell(what, self.now_ms(), **fields)

    def _may_wait(self, ms: float) -> bool:
        return self.deadline_ms is None or self.now_ms() + ms <= self.deadline_ms

    def _in_background(self, write: Callable[[], Awaitable[object]]) -> None:
        """Finish a write that its call cannot wait for: an open intent would keep others waiting."""
        task = asyncio.ensure_future(self._persist(write))
        _unfinished.add(task)
        task.add_done_callback(_unfinished.discard)

    async def _persist(self, write: Callable[[], Awaitable[object]]) -> None:
        for _ in range(_BACKGROUND_TRIES):
            try:
                await write()
                return
            except JournalError as error:
                self._tell("journal_failing", error=error, then="record the outcome of a request later")
            await self.sleep(_LONGEST_PAUSE_MS)
