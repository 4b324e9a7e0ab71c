"""What a report reads from one LLM_CALL event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from beam_agents import attributes as names
from beam_agents.proto import TraceEvent
from beam_agents.values import TokenUsage

__all__ = ["CallFacts", "LoggedAttempt"]

_MOST: Final = 10**12
_STORED: Final = ("cache", "journal", "flight")


@dataclass(frozen=True, slots=True)
class LoggedAttempt:
    """One entry of `beam_agents.attempt_log`: a request of this call that did not give its answer."""

    attempt_id: str
    outcome: str
    error: str = ""
    status: int | None = None
    usage: TokenUsage | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts of one call; `usage` is `None` where the event does not tell it."""

    trace_id: bytes
    span_id: bytes
    entity_key: bytes
    seq: int
    step_index: int
    start_ms: int
    end_ms: int
    provider: str
    model: str
    response_model: str
    endpoint: str
    circuit: str
    call_id: str
    attempt_id: str
    attempts: int
    billed: bool
    replay: str
    waited_ms: float
    error: str
    schema_failure: str
    usage: TokenUsage | None
    log: tuple[LoggedAttempt, ...]

    @property
    def stored(self) -> bool:
        """Whether a stored or shared answer served the call, without a request of its own."""
        return self.replay in _STORED

    @property
    def duration_ms(self) -> int:
        """How long the call took, waiting included; never negative."""
        return max(0, self.end_ms - self.start_ms)

    @classmethod
    def of(cls, event: TraceEvent) -> CallFacts:
        """Reads an LLM_CALL event; what is missing or malformed becomes the neutral value."""
        said = event.attributes
        return cls(
            trace_id=event.trace_id,
            span_id=event.span_id,
            entity_key=event.entity_key,
            seq=event.seq,
            step_index=event.step_index,
            start_ms=event.start_ms,
            end_ms=event.end_ms,
            provider=said.get(names.GEN_AI_PROVIDER_NAME, "custom"),
            model=said.get(names.GEN_AI_REQUEST_MODEL, ""),
            response_model=said.get(names.GEN_AI_RESPONSE_MODEL, ""),
            endpoint=_endpoint(said),
            circuit=said.get(names.CIRCUIT_STATE, ""),
            call_id=said.get(names.CALL_ID, ""),
            attempt_id=said.get(names.ATTEMPT_ID, ""),
            attempts=_whole(said, names.ATTEMPTS) or 0,
            billed=said.get(names.BILLED) == "true",
            replay=said.get(names.REPLAY, ""),
            waited_ms=_whole(said, names.WAITED_MS) or 0,
            error=said.get(names.ERROR_TYPE, ""),
            schema_failure=said.get(names.SCHEMA_FAILURE, ""),
            usage=_usage(said),
            log=_log(said.get(names.ATTEMPT_LOG, "")),
        )


def _endpoint(said: Mapping[str, str]) -> str:
    address = said.get(names.SERVER_ADDRESS)
    if not address:
        return said.get(names.GEN_AI_PROVIDER_NAME, "custom")
    port = said.get(names.SERVER_PORT, "")
    return f"{address}:{port}" if port else address


def _whole(said: Mapping[str, str], name: str) -> int | None:
    text = said.get(name)
    if text is None:
        return None
    try:
        value = round(float(text))
    except (ValueError, OverflowError):
        return None
    return value if 0 <= value <= _MOST else None


def _usage(said: Mapping[str, str]) -> TokenUsage | None:
    read = _whole(said, names.GEN_AI_USAGE_INPUT_TOKENS)
    written = _whole(said, names.GEN_AI_USAGE_OUTPUT_TOKENS)
    if read is None and written is None:
        return None
    read, written = read or 0, written or 0
    cached = _whole(said, names.GEN_AI_USAGE_CACHED_TOKENS)
    return TokenUsage(read, written, read + written, cached, _whole(said, names.GEN_AI_USAGE_REASONING_TOKENS))


def _log(text: str) -> tuple[LoggedAttempt, ...]:
    if not text:
        return ()
    try:
        found = orjson.loads(text)
    except ValueError:
        return ()
    entries = found if isinstance(found, list) else []
    return tuple(_logged(entry) for entry in entries if isinstance(entry, dict) and entry.get("id"))


def _logged(entry: Mapping[str, object]) -> LoggedAttempt:
    status, read, written = (entry.get(name) for name in ("status", "input_tokens", "output_tokens"))
    return LoggedAttempt(
        str(entry["id"]),
        str(entry.get("outcome", "")),
        str(entry.get("error", "")),
        status if isinstance(status, int) else None,
        TokenUsage(read, written, read + written) if isinstance(read, int) and isinstance(written, int) else None,
        str(entry.get("model", "")),
    )
