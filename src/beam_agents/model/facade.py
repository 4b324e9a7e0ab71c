"""`LlmFacade`: one resilient, replayable, accountable call of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pydantic import BaseModel

from beam_agents.model.attempts import Answer, Attempts
from beam_agents.model.breaker import CircuitBreaker
from beam_agents.model.budget import TokenBudget
from beam_agents.model.cache_key import compute_cache_key
from beam_agents.model.call_record import CallRecord, Endpoint
from beam_agents.model.decoding import normalising
from beam_agents.model.fingerprint import fingerprint
from beam_agents.model.journaling import Journaling
from beam_agents.model.replay_cache import ReplayCache
from beam_agents.model.retry import RetryPolicy
from beam_agents.model.schema import SAMPLE_PARAM, Verdict, fold
from beam_agents.model.single_flight import SingleFlight
from beam_agents.model.unlimited import UNLIMITED
from beam_agents.notices import notices
from beam_agents.ports import (
    CallIdentity,
    Clock,
    ContentRecorder,
    Decode,
    DivergencePolicy,
    InDoubtPolicy,
    Journal,
    LLMClient,
    LoadControl,
    Rng,
    Sleep,
    StagingSink,
)
from beam_agents.values import DecodedResponse, LlmRequest, LlmResponse, TokenUsage, well_formed

__all__ = ["FacadeResult", "LlmFacade"]

_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class FacadeResult:
    """What a call came to.

    Attributes:
        response: the provider's bytes, verbatim.
        parsed: the validated instance of the output schema, or `None` when none was asked for.
        usage: the answer's tokens, or `None` when the endpoint did not say.
        cache_hit: whether a stored or shared answer served the call, at no cost.
        attempts: requests on the wire for this call; 0 on a hit.
        decoded: all that the provider's decode read from the response.
    """

    response: LlmResponse
    parsed: BaseModel | None
    usage: TokenUsage | None
    cache_hit: bool
    attempts: int
    decoded: DecodedResponse

    @property
    def text(self) -> str | None:
        """The answer's text, well-formed: what an agent emits of it can be written. `None` when it has none."""
        return None if self.decoded.text is None else well_formed(self.decoded.text)


class LlmFacade:
    """Wraps one provider client for one activation.

    Never reads a wall clock, never draws unseeded randomness, never touches Beam state: every source of
    nondeterminism is an argument, so that a retried bundle takes the path it took before. Belongs to one
    activation and one event loop; several calls may be in flight at once.

    Args:
        provider: transport to the endpoint, one request for each of its `complete`.
        replay_cache: the activation's answers so far.
        now_ms: the clock in milliseconds, or an `int` for a frozen one.
        rng: seeded; jittered delays are `rng.uniform(0, pre_jitter)`.
        sleep: waits the given milliseconds.
        breaker: the endpoint's circuit breaker, shared by the process.
        retry_policy: when to try again.
        decode: reads the provider's bytes.
        staging: takes the call's trace event and billed usage.
        journal: keeps answers outside the bundle, or `None`.
        budget: the activation's token meter, or `None`.
        deadline_ms: no wait may end later than this, on the clock of `now_ms`; `None` for no deadline.
        on_in_doubt: what to do when an earlier process died with this very call in flight.
        on_divergence: what to do when the journal knows another request at this position.
        scope: namespace and window that journal records belong to.
        load: limits on what is sent to the endpoint, or `None`.
        content: makes trace attributes of prompts and answers; `None` keeps them out of traces.
    """

    def __init__(
        self,
        provider: LLMClient,
        replay_cache: ReplayCache,
        *,
        now_ms: Clock | int,
        rng: Rng,
        sleep: Sleep,
        breaker: CircuitBreaker,
        retry_policy: RetryPolicy,
        decode: Decode,
        staging: StagingSink,
        journal: Journal | None = None,
        budget: TokenBudget | None = None,
        deadline_ms: float | None = None,
        on_in_doubt: InDoubtPolicy = "repay",
        on_divergence: DivergencePolicy = "warn",
        scope: str = "",
        load: LoadControl | None = None,
        content: ContentRecorder | None = None,
    ) -> None:
        self._now_ms: Callable[[], int] = now_ms if callable(now_ms) else lambda: now_ms
        self._cache = replay_cache
        self._decode = normalising(decode)
        self._staging = staging
        self._budget = budget
        self._breaker = breaker
        self._scope = scope
        self._content = content
        self._endpoint = Endpoint.of(provider)
        self._flights: SingleFlight[Answer] = SingleFlight()
        self._calls = 0
        self._journaling = (
            None
            if journal is None
            else Journaling(journal, self._now_ms, sleep, deadline_ms, on_in_doubt, on_divergence)
        )
        self._attempts = Attempts(
            provider,
            self._decode,
            breaker,
            retry_policy,
            self._now_ms,
            rng,
            sleep,
            deadline_ms,
            self._journaling,
            load or UNLIMITED,
        )

    async def complete(
        self,
        request: LlmRequest,
        *,
        entity_key: bytes,
        seq: int,
        step_index: int | None = None,
        output_schema: type[BaseModel] | None = None,
        sample: int | None = None,
    ) -> FacadeResult:
        """Answer `request`, from what is stored or from the provider, and stage exactly one LLM_CALL event.

        Args:
            request: what to ask.
            entity_key: key of the activation.
            seq: position of the activation among those of its key.
            step_index: position of the call in its activation; `None` counts this facade's calls from 0.
            output_schema: Pydantic model that the answer must satisfy; it becomes part of the request.
            sample: makes otherwise equal requests distinct, for several answers to one question.

        Raises:
            ProviderError: the last one itself, when retrying did not help.
            ProviderRequestError: the endpoint will not serve this request.
            ResponseDecodeError: an answer without the promised shape.
            OutputSchemaError: an answer, stored and billed, that does not satisfy `output_schema`.
            CircuitOpenError: the endpoint's circuit is open; nothing was sent.
            BudgetExceeded: the activation used more tokens than it may; the answer is stored and billed.
            JournalError: the journal could not make intent or answer durable, or forbids a new request.
            TypeError, ValueError: the request cannot be serialized or is contradictory.
        """
        _require_scope(entity_key, seq, step_index, sample)
        step = self._calls if step_index is None else step_index
        self._calls += 1
        record = CallRecord(
            request, entity_key, seq, step, start_ms=self._now_ms(), structured=output_schema is not None
        )
        try:
            keyed, sent = _effective(request, output_schema, sample)
            self._identify(keyed, record)
            verdict = Verdict(output_schema)
            answer = self._replayed(record)
            if answer is None:
                lead = partial(self._fetched, keyed, sent, record, verdict)
                answer, shared = await self._flights.join(record.call_id, lead)
                if shared:
                    record.replay, record.answered_by, record.decoded = "flight", answer.ordinal, answer.decoded
            self._account(answer, record)
            result = FacadeResult(
                response=answer.response,
                parsed=verdict.parsed(answer.decoded),
                usage=answer.decoded.usage,
                cache_hit=record.cache_hit,
                attempts=record.attempts,
                decoded=answer.decoded,
            )
        except BaseException as error:
            self._tell(record, error)
            raise
        self._tell(record, None)
        return result

    def _tell(self, record: CallRecord, raised: BaseException | None) -> None:
        event = record.event(self._endpoint, self._breaker.state, self._now_ms(), raised)
        if self._content is not None:
            event.attributes.update(self._content(record.request, record.decoded))
        self._staging.stage_trace_event(event)

    def _identify(self, keyed: LlmRequest, record: CallRecord) -> None:
        record.call_id = compute_cache_key(
            keyed.model_id,
            keyed.messages,
            keyed.tools_schema,
            keyed.sampling_params,
            record.entity_key,
            record.seq,
        )
        if self._budget is not None:
            self._budget.charge(0)  # a tripped budget buys nothing more

    def _identity(self, keyed: LlmRequest, record: CallRecord) -> CallIdentity:
        return CallIdentity(
            record.call_id,
            record.entity_key,
            record.seq,
            record.step_index,
            keyed.model_id,
            self._scope,
            fingerprint=() if self._journaling is None else self._fingerprint(keyed, record),
        )

    def _fingerprint(self, keyed: LlmRequest, record: CallRecord) -> tuple[tuple[str, str], ...]:
        position = f"{self._scope}|{record.entity_key.hex()}|{record.seq}|{record.step_index}"
        return fingerprint(keyed, position)

    def _replayed(self, record: CallRecord) -> Answer | None:
        """The activation's own stored answer, if it is whole."""
        entry = self._cache.get(record.call_id)
        if entry is None:
            return None
        response = LlmResponse(entry.response)
        if response.response_digest == entry.response_digest and not entry.digest_only:
            record.replay, record.answered_by = "cache", entry.attempt_ordinal
            return self._read(response, entry.attempt_ordinal, record)
        self._attempts.resume_after(record.call_id, entry.attempt_ordinal)
        if entry.digest_only:
            record.kept_digest = entry.response_digest
        else:
            record.replay = "corrupt"
        return None

    async def _fetched(self, keyed: LlmRequest, sent: LlmRequest, record: CallRecord, verdict: Verdict) -> Answer:
        """From the journal or the provider, then into the replay cache."""
        call = self._identity(keyed, record)
        while True:
            answer = None if self._journaling is None else await self._journaled(call, record, self._journaling)
            if answer is None:
                answer = await self._attempts.obtain(call, sent, record, verdict.satisfied_by)
            if answer is not None:
                break
        digest = answer.response.response_digest
        if record.kept_digest is not None and record.kept_digest != digest and not record.cache_hit:
            record.replay = "diverged"
            notices.tell(
                "divergence", self._now_ms(), call=call.call_id, seq=call.seq, step=call.step_index, changed="answer"
            )
        self._cache.put(call.call_id, answer.response, attempt_ordinal=answer.ordinal)
        return answer

    async def _journaled(self, call: CallIdentity, record: CallRecord, journaling: Journaling) -> Answer | None:
        finding = await journaling.settled(call)
        record.past = finding.past
        journaling.require_payable(call, finding)
        if finding.answer is None:
            if any(one.damaged for one in finding.past):
                record.replay = "corrupt"
            if not record.attempts and all(one.set_aside for one in finding.past):
                await self._note_divergence(call, record, journaling)
            return None
        record.replay, record.answered_by = "journal", finding.answer.ordinal
        return self._read(LlmResponse(finding.answer.response), finding.answer.ordinal, record)

    async def _note_divergence(self, call: CallIdentity, record: CallRecord, journaling: Journaling) -> None:
        record.diverged_fields = await journaling.changed_since(call)
        if record.diverged_fields:
            record.replay = "diverged"

    def _read(self, response: LlmResponse, ordinal: int, record: CallRecord) -> Answer:
        """Raises `ResponseDecodeError` for intact bytes: a decoder's fault must not buy everything again."""
        record.decoded = self._decode(response.response)
        return Answer(response, record.decoded, ordinal)

    def _account(self, answer: Answer, record: CallRecord) -> None:
        usage = answer.decoded.usage
        if usage is None:
            return
        if record.billed:
            self._staging.accumulate_usage(usage)
        if self._budget is not None:
            self._budget.charge(usage.total_tokens)


def _effective(
    request: LlmRequest, output_schema: type[BaseModel] | None, sample: int | None
) -> tuple[LlmRequest, LlmRequest]:
    """The request that the key is computed of, and the one that is sent."""
    sent = fold(request, output_schema)
    if sample is None:
        return sent, sent
    return replace(sent, sampling_params={**(sent.sampling_params or {}), SAMPLE_PARAM: sample}), sent


def _require_scope(entity_key: object, seq: object, step_index: object, sample: object) -> None:
    if not isinstance(entity_key, bytes):
        raise TypeError(f"entity_key must be bytes, not {type(entity_key).__name__}")
    for name, value in (("seq", seq), ("step_index", step_index), ("sample", sample)):
        if value is None and name != "seq":
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, not {type(value).__name__}")
        if not -_INT64 <= value < _INT64:
            raise ValueError(f"{name} must fit in 64 bits, but is {value}")
