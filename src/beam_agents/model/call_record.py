"""What one call has come to so far, and the LLM_CALL event that tells it."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

import orjson

from beam_agents import attributes as names
from beam_agents.errors import OutputSchemaError, ProviderError
from beam_agents.model.breaker import CircuitState
from beam_agents.ports import AttemptOutcome, PastAttempt, attempt_id
from beam_agents.proto import TraceEvent
from beam_agents.values import DecodedResponse, LlmRequest, TokenUsage, well_formed

__all__ = ["Attempt", "CallRecord", "Endpoint", "status_of"]

Found: TypeAlias = MutableMapping[str, str]
"""The attributes of an event, written straight into its message: protobuf takes a whole dict no faster."""

_FLAG = {True: "true", False: "false"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Who serves the calls, as the trace names it."""

    provider_name: str
    address: str | None
    port: str | None

    @classmethod
    def of(cls, client: object) -> Endpoint:
        """Reads `provider_name` and `endpoint` of a client; `custom` and no address without them."""
        name = getattr(client, "provider_name", None) or "custom"
        address, port = _split(str(getattr(client, "endpoint", None) or ""))
        return cls(str(name), address, port)


class Attempt(NamedTuple):
    """One request on the wire for this call, and how long the call waited before it.

    `ended_ms` is when it failed, `usage` that of an answer, when known.
    """

    ordinal: int
    outcome: AttemptOutcome
    error_type: str = ""
    status: int | None = None
    waited_ms: float = 0
    ended_ms: int = 0
    usage: TokenUsage | None = None


@dataclass(slots=True)
class CallRecord:
    """Facts of one `complete`, gathered on its way; the only mutable state of a call."""

    request: LlmRequest
    entity_key: bytes
    seq: int
    step_index: int
    start_ms: int
    call_id: str = ""
    attempts: int = 0
    waited_ms: float = 0
    log: list[Attempt] = field(default_factory=list)
    past: tuple[PastAttempt, ...] = ()
    answered_by: int = 0
    billed: bool = False
    replay: str = ""
    diverged_fields: tuple[str, ...] = ()
    kept_digest: bytes | None = None
    last_failure: ProviderError | None = None
    decoded: DecodedResponse | None = None
    structured: bool = False

    @property
    def cache_hit(self) -> bool:
        """Whether a stored or shared answer served the call."""
        return self.replay in ("cache", "journal", "flight")

    @property
    def known_ordinal(self) -> int:
        """Ordinal of the latest request for the call that this one knows of; 0 for none."""
        return max(self.past[-1].ordinal if self.past else 0, self.log[-1].ordinal if self.log else 0)

    def event(self, endpoint: Endpoint, circuit: CircuitState, end_ms: int, error: BaseException | None) -> TraceEvent:
        """The LLM_CALL event, uncorrelated: the staging sink stamps trace and span ids."""
        event = TraceEvent(
            entity_key=self.entity_key,
            seq=self.seq,
            step_index=self.step_index,
            event_type=TraceEvent.LLM_CALL,
            start_ms=self.start_ms,
            end_ms=end_ms,
        )
        self._describe(event.attributes, endpoint, circuit, error)
        return event

    def _describe(self, found: Found, endpoint: Endpoint, circuit: CircuitState, error: BaseException | None) -> None:
        log = self._whole_log()
        found[names.GEN_AI_OPERATION_NAME] = "chat"
        found[names.GEN_AI_PROVIDER_NAME] = endpoint.provider_name
        found[names.GEN_AI_REQUEST_MODEL] = well_formed(str(self.request.model_id))
        found[names.CACHE_HIT] = _FLAG[self.cache_hit]
        found[names.BILLED] = _FLAG[self.billed]
        found[names.ATTEMPTS] = str(self.attempts)
        found[names.CIRCUIT_STATE] = circuit.value
        found[names.IN_DOUBT] = str([one.outcome for one in log].count("in_doubt"))
        if endpoint.address is not None:
            found[names.SERVER_ADDRESS] = endpoint.address
        if endpoint.port is not None:
            found[names.SERVER_PORT] = endpoint.port
        if self.structured:
            found[names.GEN_AI_OUTPUT_TYPE] = "json"
        if self.replay:
            found[names.REPLAY] = self.replay
        if self.diverged_fields:
            found[names.DIVERGED_FIELDS] = ",".join(self.diverged_fields)
        if self.waited_ms:
            found[names.WAITED_MS] = f"{self.waited_ms:.0f}"
        if self.call_id:
            self._identify(found, log)
        if self.decoded is not None:
            _describe_answer(found, self.decoded)
        if error is not None:
            found[names.ERROR_TYPE] = type(error).__name__
            if isinstance(error, OutputSchemaError):
                found[names.SCHEMA_FAILURE] = error.reason

    def _identify(self, found: Found, log: list[Attempt]) -> None:
        found[names.CALL_ID] = self.call_id
        if self.answered_by:
            found[names.ATTEMPT_ID] = attempt_id(self.call_id, self.answered_by)
        if [one for one in log if one.ordinal != self.answered_by]:
            logged = [_logged(self.call_id, one, is_source=one.ordinal == self.answered_by) for one in log]
            found[names.ATTEMPT_LOG] = orjson.dumps(logged).decode()

    def _whole_log(self) -> list[Attempt]:
        """The requests of earlier runs, then this call's own, each once."""
        if not self.past:
            return self.log
        own = {one.ordinal for one in self.log}
        past = [
            Attempt(one.ordinal, one.outcome, one.error_type, one.status, usage=one.usage)
            for one in self.past
            if one.ordinal not in own
        ]
        return past + self.log


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error carries; `None` without one."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def _logged(call_id: str, attempt: Attempt, *, is_source: bool) -> dict[str, object]:
    logged: dict[str, object] = {"id": attempt_id(call_id, attempt.ordinal), "outcome": attempt.outcome}
    if attempt.error_type:
        logged["error"] = attempt.error_type
    if attempt.status is not None:
        logged["status"] = attempt.status
    if attempt.waited_ms:
        logged["waited_ms"] = round(attempt.waited_ms)
    if attempt.ended_ms:
        logged["ended_ms"] = attempt.ended_ms
    if attempt.usage is not None and not is_source:
        logged["input_tokens"] = attempt.usage.prompt_tokens
        logged["output_tokens"] = attempt.usage.completion_tokens
    return logged


def _describe_answer(found: Found, decoded: DecodedResponse) -> None:
    if decoded.usage is not None:
        _describe_usage(found, decoded.usage)
    if decoded.response_model:
        found[names.GEN_AI_RESPONSE_MODEL] = well_formed(decoded.response_model)
    if decoded.response_id:
        found[names.GEN_AI_RESPONSE_ID] = well_formed(decoded.response_id)
    if decoded.finish_reason:
        found[names.GEN_AI_RESPONSE_FINISH_REASONS] = well_formed(decoded.finish_reason)


def _describe_usage(found: Found, usage: TokenUsage) -> None:
    found[names.GEN_AI_USAGE_INPUT_TOKENS] = str(usage.prompt_tokens)
    found[names.GEN_AI_USAGE_OUTPUT_TOKENS] = str(usage.completion_tokens)
    if usage.cached_tokens is not None:
        found[names.GEN_AI_USAGE_CACHED_TOKENS] = str(usage.cached_tokens)
    if usage.reasoning_tokens is not None:
        found[names.GEN_AI_USAGE_REASONING_TOKENS] = str(usage.reasoning_tokens)


@lru_cache(maxsize=256)
def _split(endpoint: str) -> tuple[str | None, str | None]:
    if not endpoint:
        return None, None
    try:
        parts = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return None, None
    return parts.hostname, None if port is None else str(port)
