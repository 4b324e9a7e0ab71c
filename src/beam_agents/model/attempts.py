"""Attempt, back off, attempt …: the way of one call through breaker, journal and provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias, cast

from beam_agents.errors import CircuitOpenError, ProviderError
from beam_agents.model.breaker import CircuitBreaker, Permit
from beam_agents.model.call_record import Attempt, CallRecord, status_of
from beam_agents.model.journaling import Journaling
from beam_agents.model.retry import RetryPolicy, is_retryable
from beam_agents.notices import notices
from beam_agents.ports import (
    AttemptOutcome,
    CallIdentity,
    Clock,
    Decode,
    Intent,
    JournalFinding,
    LLMClient,
    LoadControl,
    LoadSlot,
    PreparingClient,
    Rng,
    Sleep,
    current_call,
)
from beam_agents.values import DecodedResponse, LlmRequest, LlmResponse

__all__ = ["Answer", "Attempts", "Judge"]

Judge = Callable[[DecodedResponse], bool]
"""Whether an answer satisfies its output schema; pure."""

_Send: TypeAlias = Callable[[], Awaitable[LlmResponse]]


class Answer(NamedTuple):
    """A response, what it says, and the request that it came from."""

    response: LlmResponse
    decoded: DecodedResponse
    ordinal: int


@dataclass(slots=True)
class Attempts:
    """Everything that sending a request and trying again needs."""

    provider: LLMClient
    decode: Decode
    breaker: CircuitBreaker
    policy: RetryPolicy
    now_ms: Clock
    rng: Rng
    sleep: Sleep
    deadline_ms: float | None
    journaling: Journaling | None
    load: LoadControl
    _ordinals: dict[str, int] = field(default_factory=dict)

    async def obtain(
        self, call: CallIdentity, request: LlmRequest, record: CallRecord, satisfies: Judge
    ) -> Answer | None:
        """An answer from the provider, or `None` when the journal must be asked again first.

        Raises:
            CircuitOpenError: when the first attempt is refused.
            ProviderError: the last one itself, when no attempt is left, permitted or in time.
        """
        while True:
            asked_ms = self.now_ms()
            async with self.load.slot() as slot:
                now_ms = self.now_ms()
                record.waited_ms += now_ms - asked_ms
                with self._permit(record, now_ms) as permit:
                    send = await self._prepared(request)
                    intent = await self._intend(call, record)
                    if isinstance(intent, JournalFinding):
                        return None  # another worker answered, or is at it
                    try:
                        answer = await self._attempt(intent, send, record, permit, slot, satisfies)
                    except ProviderError as error:
                        if not is_retryable(error) or permit.is_trial:
                            raise
                        record.last_failure = error
                    else:
                        return answer
            await self._back_off(record.last_failure, record)

    def resume_after(self, call_id: str, ordinal: int) -> None:
        """Number the next request of a call after one that is known from elsewhere."""
        self._ordinals[call_id] = max(self._ordinals.get(call_id, 0), ordinal)

    def _permit(self, record: CallRecord, now_ms: int) -> Permit:
        try:
            return self.breaker.before_call(now_ms)
        except CircuitOpenError:
            failed = record.last_failure
            if failed is not None:
                raise failed from failed.__cause__
            raise

    async def _prepared(self, request: LlmRequest) -> _Send:
        """What sends the request; a client that cannot prepare one does all of it when called."""
        if _prepares(self.provider):
            return await cast(PreparingClient, self.provider).prepare(request)
        return partial(self.provider.complete, request)

    async def _intend(self, call: CallIdentity, record: CallRecord) -> Intent | JournalFinding:
        if self.journaling is not None:
            return await self.journaling.begin(call, record.known_ordinal)
        ordinal = self._ordinals[call.call_id] = self._ordinals.get(call.call_id, 0) + 1
        return Intent(call, ordinal)

    async def _attempt(
        self, intent: Intent, send: _Send, record: CallRecord, permit: Permit, slot: LoadSlot, satisfies: Judge
    ) -> Answer | None:
        """The answer to one request, or `None` when that of another worker stands in the journal."""
        record.attempts += 1
        token = current_call.set(intent.call)
        try:
            response = await send()
            decoded = self.decode(response.response)
        except BaseException as error:
            slot.failed(error)
            if is_retryable(error):
                permit.record_failure(self.now_ms(), _cause(error))
            else:
                permit.release()
            await self._note_failure(intent, error, record)
            raise
        finally:
            current_call.reset(token)
        slot.answered(decoded.usage)
        record.log.append(Attempt(intent.ordinal, "answered", waited_ms=record.waited_ms, usage=decoded.usage))
        record.decoded, record.billed, record.answered_by = decoded, True, intent.ordinal
        if satisfies(decoded):
            permit.record_success()
        else:
            permit.release()
        if self.journaling is not None:
            standing = await self.journaling.record_answer(intent, response, decoded.usage)
            if standing is not None:
                record.billed = False
                return None
        return Answer(response, decoded, intent.ordinal)

    async def _note_failure(self, intent: Intent, error: BaseException, record: CallRecord) -> None:
        outcome: AttemptOutcome = "in_doubt" if _in_doubt(error) else "failed"
        now_ms = self.now_ms()
        record.log.append(
            Attempt(intent.ordinal, outcome, type(error).__name__, status_of(error), record.waited_ms, now_ms)
        )
        if outcome == "in_doubt":
            endpoint, request = self.breaker.endpoint, intent.call.attempt_id(intent.ordinal)
            cause = _cause(error)
            notices.tell("call_in_doubt", now_ms, about=endpoint, endpoint=endpoint, request=request, cause=cause)
        if self.journaling is not None:
            await self.journaling.record_failure(intent, outcome, error)

    async def _back_off(self, failed: ProviderError, record: CallRecord) -> None:
        """Wait before the next attempt, or raise `failed` itself when there is none to wait for."""
        now_ms = self.now_ms()
        if record.attempts >= self.policy.max_attempts or self.breaker.refuses(now_ms):
            raise failed
        delay_ms = self.policy.delay_ms(record.attempts, failed, self.rng)
        limit_ms = self.policy.max_elapsed_ms
        if limit_ms is not None and now_ms + delay_ms > record.start_ms + limit_ms:
            raise failed
        if self.deadline_ms is not None and now_ms + delay_ms > self.deadline_ms:
            raise failed
        if not self.load.may_retry():
            raise failed
        record.waited_ms += delay_ms
        await self.sleep(delay_ms)


def _cause(error: BaseException) -> str:
    """Class and status, without anything that the error says."""
    status = status_of(error)
    return type(error).__name__ if status is None else f"{type(error).__name__} {status}"


def _prepares(provider: LLMClient) -> bool:
    """Whether `complete` is what `prepare` returns; a subclass or a double may have a `complete` of its own."""
    return _class_prepares(type(provider)) and "complete" not in getattr(provider, "__dict__", ())


@lru_cache(maxsize=64)
def _class_prepares(kind: type[LLMClient]) -> bool:
    owner = next((each for each in kind.__mro__ if "complete" in vars(each)), None)
    return owner is not None and "prepare" in vars(owner)


def _in_doubt(error: BaseException) -> bool:
    """Whether the endpoint may have served the request; an error that does not say leaves it open."""
    return bool(getattr(error, "in_doubt", True))
