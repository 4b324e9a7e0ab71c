"""A trace event as an OpenTelemetry span with our own ids and typed attributes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from beam_agents import attributes as names
from beam_agents.exporters.jsonl import entity_key_to_json
from beam_agents.proto import TraceEvent

__all__ = ["ATTEMPT_EVENT", "STORED_USAGE", "SpanValue", "to_span", "typed_attributes"]

SpanValue: TypeAlias = str | bool | int | float | Sequence[str]
"""A value of a span attribute."""

ATTEMPT_EVENT: Final = "beam_agents.attempt"
"""Name of the span event of one request of a call."""

STORED_USAGE: Final = "beam_agents.stored."
"""Prefix of the tokens of a stored answer on a span, in place of `gen_ai.usage.`."""

_USAGE: Final = "gen_ai.usage."
_SCOPE: Final = InstrumentationScope("beam_agents")
_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8
_MAX_MS: Final = 2**63 // 1_000_000


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _strings(text: str) -> Sequence[str]:
    found = json.loads(text) if text.startswith("[") else [text]
    if not all(isinstance(item, str) for item in found):
        raise ValueError(text)
    return tuple(found)


_LOGGED: Final = {
    "id": names.ATTEMPT_ID,
    "outcome": names.ATTEMPT_OUTCOME,
    "error": names.ERROR_TYPE,
    "status": names.HTTP_STATUS,
    "waited_ms": names.WAITED_MS,
}

_READERS: Final[Mapping[str, Callable[[str], SpanValue]]] = {
    "string": str,
    "string[]": _strings,
    "int": int,
    "double": float,
    "boolean": _boolean,
}


def typed_attributes(event: TraceEvent) -> dict[str, SpanValue]:
    """The attributes of `event` by their OpenTelemetry types, and its position.

    A value that does not have its type stays the text that it is. The tokens of a stored answer stand under
    `beam_agents.stored.`, so that nothing which adds up `gen_ai.usage.` pays for them again.
    """
    typed: dict[str, SpanValue] = {}
    stored = event.attributes.get(names.CACHE_HIT) == "true"
    for name, text in event.attributes.items():
        read = _READERS[names.ATTRIBUTE_TYPES.get(name, "string")]
        shown = STORED_USAGE + name.removeprefix(_USAGE) if stored and name.startswith(_USAGE) else name
        try:
            typed[shown] = read(text)
        except ValueError:
            typed[shown] = text
    key = entity_key_to_json(event.entity_key)
    typed[names.ENTITY_KEY] = key if isinstance(key, str) else orjson.dumps(key).decode()
    typed[names.SEQ] = event.seq
    if event.event_type == TraceEvent.LLM_CALL:
        typed[names.STEP_INDEX] = event.step_index
    return typed


def to_span(event: TraceEvent, resource: Resource) -> ReadableSpan:
    """`event` as a finished span.

    A call is a client span `{operation} {model}`, with an event for each request where it made several; an
    activation is an internal span `invoke_agent`.

    Raises:
        ValueError: when the event has no valid trace or span id, or a time that OTLP cannot hold.
    """
    if not 0 <= event.start_ms <= _MAX_MS or event.end_ms > _MAX_MS:
        raise ValueError(f"start {event.start_ms} ms and end {event.end_ms} ms are no times since the epoch")
    context = _context(event.trace_id, event.span_id)
    if context is None:
        raise ValueError(
            "the event has no trace id of 16 bytes and span id of 8 bytes; was it staged by an activation?"
        )
    typed = typed_attributes(event)
    if event.event_type == TraceEvent.ACTIVATION:
        typed.setdefault(names.GEN_AI_OPERATION_NAME, "invoke_agent")
    error = event.attributes.get(names.ERROR_TYPE)
    return ReadableSpan(
        name=_name(event, typed),
        context=context,
        parent=_context(event.trace_id, event.parent_span_id),
        resource=resource,
        attributes=typed,
        events=_attempts(event),
        kind=SpanKind.CLIENT if event.event_type == TraceEvent.LLM_CALL else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, error) if error else Status(StatusCode.UNSET),
        start_time=event.start_ms * 1_000_000,
        end_time=max(event.start_ms, event.end_ms) * 1_000_000,
        instrumentation_scope=_SCOPE,
    )


def _attempts(event: TraceEvent) -> list[Event]:
    """One event for each request of the call's log, at its end; the one that was answered ended with the call."""
    try:
        log = orjson.loads(event.attributes.get(names.ATTEMPT_LOG, "[]"))
        return [_attempt(logged, event) for logged in log]
    except (ValueError, TypeError, AttributeError):
        return []


def _attempt(logged: Mapping[str, Any], event: TraceEvent) -> Event:
    told = {name: logged[key] for key, name in _LOGGED.items() if key in logged}
    answered = logged.get("outcome") == "answered"
    ended_ms = int(logged.get("ended_ms") or (event.end_ms if answered else event.start_ms))
    return Event(ATTEMPT_EVENT, told, ended_ms * 1_000_000)


def _name(event: TraceEvent, typed: Mapping[str, SpanValue]) -> str:
    of = names.GEN_AI_REQUEST_MODEL if event.event_type == TraceEvent.LLM_CALL else names.GEN_AI_AGENT_NAME
    operation = typed.get(names.GEN_AI_OPERATION_NAME, "chat")
    return f"{operation} {event.attributes.get(of, '')}".rstrip()


def _context(trace_id: bytes, span_id: bytes) -> SpanContext | None:
    if len(trace_id) != _TRACE_ID_BYTES or len(span_id) != _SPAN_ID_BYTES or not any(trace_id) or not any(span_id):
        return None
    return SpanContext(
        int.from_bytes(trace_id), int.from_bytes(span_id), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
