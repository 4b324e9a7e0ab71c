"""The ports: what each side may assume of the other. Implementations do not inherit from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from beam_agents.proto import TraceEvent
from beam_agents.values import DecodedResponse, LlmRequest, LlmResponse, TokenUsage

__all__ = [
    "AttemptOutcome",
    "CallIdentity",
    "Clock",
    "ContentRecorder",
    "Decode",
    "DivergencePolicy",
    "InDoubtPolicy",
    "Intent",
    "Journal",
    "JournalFinding",
    "JournaledAnswer",
    "LLMClient",
    "LoadControl",
    "LoadSlot",
    "PastAttempt",
    "PreparingClient",
    "Rng",
    "SetAside",
    "Sleep",
    "StagingSink",
    "attempt_id",
    "current_call",
]

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits the given number of milliseconds."""

Decode: TypeAlias = Callable[[bytes], DecodedResponse]
"""Reads a provider's verbatim bytes. Raises `ResponseDecodeError` for bytes without the promised shape."""

ContentRecorder: TypeAlias = Callable[[LlmRequest, DecodedResponse | None], Mapping[str, str]]
"""Trace attributes that hold a prompt and its answer, when there is one. Never raises."""

DivergencePolicy: TypeAlias = Literal["warn", "strict", "rerun"]
"""What to do when an activation asks something else than a run before did at that position.

`warn`: pay and say so. `strict`: fail. `rerun`: set the rest of that activation's journal aside and start it again.
"""

InDoubtPolicy: TypeAlias = Literal["repay", "fail", "defer"]
"""What to do when an earlier process died with a request in flight: pay again, fail, or leave it for later."""

AttemptOutcome: TypeAlias = Literal["answered", "failed", "in_doubt"]
"""How a request on the wire ended. See `docs/guarantees.md` for the classes of spend."""


class Rng(Protocol):
    """A seeded source of randomness, such as `random.Random(seed)`."""

    def uniform(self, a: float, b: float, /) -> float: ...


@runtime_checkable
class LLMClient(Protocol):
    """Transport to one endpoint: exactly one request on the wire for each `complete`.

    It raises `RateLimitError`, `ServerError` or `ProviderTimeout` for what a retry may mend, and
    `ProviderRequestError` for what it may not. It may carry `provider_name` (`str`) and `endpoint`
    (`str`, scheme, host and port) for the trace.
    """

    async def complete(self, request: LlmRequest) -> LlmResponse: ...


class PreparingClient(LLMClient, Protocol):
    """A client that can tell apart what fails before a request leaves: that is no attempt, and not journaled."""

    async def prepare(self, request: LlmRequest) -> Callable[[], Awaitable[LlmResponse]]:
        """What sends `request`, once, when it is called. Whatever this raises ends the call: nothing was sent."""
        ...


class LoadSlot(Protocol):
    """Leave to send one request under an endpoint's limits. Say how it ended; silence means that nothing was sent."""

    def answered(self, usage: TokenUsage | None) -> None:
        """The endpoint answered, at this cost."""
        ...

    def failed(self, error: BaseException) -> None:
        """The request was sent, and this is what ended it: the endpoint's failure, or a cancellation."""
        ...


class LoadControl(Protocol):
    """Limits on what is sent to one endpoint."""

    def slot(self) -> AbstractAsyncContextManager[LoadSlot]:
        """Waits until one more request may be sent; holds its place until the block is left."""
        ...

    def may_retry(self) -> bool:
        """Whether the endpoint's budget of retries has room for one more, which it then takes."""
        ...


class StagingSink(Protocol):
    """Collects an activation's effects; they are applied only when the activation succeeds."""

    def stage_trace_event(self, event: TraceEvent) -> None: ...

    def accumulate_usage(self, usage: TokenUsage) -> None: ...


@dataclass(frozen=True, slots=True)
class CallIdentity:
    """Which call of which activation a journal record belongs to.

    Attributes:
        call_id: the cache key, or another id that names the work.
        entity_key, seq, step_index: the position of the call.
        model_id: the model asked, for the account.
        scope: namespace and window. Records of different scopes never meet.
        kind: `call` for a model call, `step` for another journaled side effect.
        fingerprint: keyed digests of the request by field path; never the text itself.
    """

    call_id: str
    entity_key: bytes = b""
    seq: int = 0
    step_index: int = 0
    model_id: str = ""
    scope: str = ""
    kind: Literal["call", "step"] = "call"
    fingerprint: tuple[tuple[str, str], ...] = ()

    def attempt_id(self, ordinal: int) -> str:
        """Id of the `ordinal`-th request on the wire for this call, counted from 1 over all processes."""
        return attempt_id(self.call_id, ordinal)


def attempt_id(call_id: str, ordinal: int) -> str:
    """See `CallIdentity.attempt_id`."""
    return f"{call_id}:{ordinal}"


current_call: ContextVar[CallIdentity | None] = ContextVar("beam_agents.current_call", default=None)
"""The call that a client is being asked to serve, for clients that send an idempotency key."""


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An earlier request for the same call.

    `error_type` is empty for an answered one, `Corrupt` where the stored answer is damaged, `SetAside` where it was
    given up, and `Lost` where the process died without a word. `usage` is known for an answered one that is not the
    answer that stands.
    """

    ordinal: int
    outcome: AttemptOutcome
    error_type: str = ""
    status: int | None = None
    usage: TokenUsage | None = field(default=None, compare=False)

    @property
    def lost(self) -> bool:
        """Whether its process died before it could record an outcome."""
        return self.outcome == "in_doubt" and self.error_type == "Lost"

    @property
    def damaged(self) -> bool:
        """Whether it was answered and the stored answer is damaged."""
        return self.outcome == "answered" and self.error_type == "Corrupt"

    @property
    def set_aside(self) -> bool:
        """Whether it was answered and the answer was given up."""
        return self.outcome == "answered" and self.error_type == "SetAside"


@dataclass(frozen=True, slots=True)
class SetAside:
    """An answered request whose answer was given up."""

    call: CallIdentity
    ordinal: int
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class JournaledAnswer:
    """A durable answer and the ordinal of the request that it came from."""

    response: bytes
    response_digest: bytes
    ordinal: int


@dataclass(frozen=True, slots=True)
class JournalFinding:
    """What the journal knows about a call.

    Attributes:
        answer: the durable answer, or `None`.
        past: every earlier request whose outcome is known or whose owner is gone, by ordinal.
        busy_for_ms: set when a live owner is waiting for an answer right now: how long its lease still
            runs. Look again before then.
    """

    answer: JournaledAnswer | None = None
    past: tuple[PastAttempt, ...] = ()
    busy_for_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """A durable promise to tell how the `ordinal`-th request of `call` ended."""

    call: CallIdentity
    ordinal: int


class Journal(Protocol):
    """Answers of calls, kept outside the Beam bundle.

    Every method returns only once its effect is durable. Records are keyed by `scope` and `call_id`.
    All methods raise `JournalError` when the store cannot serve; nothing is changed then. Safe to call
    from several tasks of one event loop at once.
    """

    async def find(self, call: CallIdentity) -> JournalFinding:
        """What is known about `call`. Writes nothing."""
        ...

    async def begin(self, call: CallIdentity) -> Intent | JournalFinding:
        """Record the intent to send a request.

        Atomic: returns a finding instead when an answer or a live owner's intent is already there. The
        ordinal continues that of every earlier request for this call. An intent left by a dead owner
        becomes a past attempt, in doubt and lost. Cancelled at whatever moment, it leaves no intent behind:
        one that became durable all the same is withdrawn.
        """
        ...

    async def others_at(self, call: CallIdentity) -> tuple[CallIdentity, ...]:
        """The calls of the same kind that are known at the position of `call` under another id, latest first."""
        ...

    async def set_aside(self, call: CallIdentity) -> tuple[SetAside, ...]:
        """Give up every answer at the position of `call` from its step on, those of other kinds included.

        The requests stay on record and their ordinals taken; their calls are answered no more. Gives all that were
        set aside there, earlier ones included. Idempotent.
        """
        ...

    async def record_answer(self, intent: Intent, response: bytes, usage: TokenUsage | None) -> JournaledAnswer | None:
        """Make the answer durable. Idempotent.

        The first answer of a call stands. Where another one was first, gives that; of this one the usage is kept.
        """
        ...

    async def record_failure(
        self, intent: Intent, outcome: AttemptOutcome, error_type: str, status: int | None = None
    ) -> None:
        """Record how a request without an answer ended, and free its call for the next. Idempotent."""
        ...

    async def aclose(self) -> None:
        """Finish pending writes, give up leases and release everything. Idempotent."""
        ...
