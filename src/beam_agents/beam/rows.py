"""Dead letters and trace events as rows with a schema, for SQL, YAML and other languages."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson
from apache_beam.coders import FastPrimitivesCoder, RowCoder, registry

from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.exporters.jsonl import event_to_json
from beam_agents.proto import TraceEvent

__all__ = ["DeadLetterRow", "TraceRow", "dead_letter_row", "trace_row"]


class DeadLetterRow(NamedTuple):
    """A dead letter in columns.

    Attributes:
        entity_key: the key, as bytes.
        seq: position of the event among those of its key.
        event: the event as JSON, or `None` where `event_bytes` and `event_type` hold it as Beam encodes it.
        error_type, message, reason: what went wrong.
        attempts: requests on the wire.
        calls, trace_events: JSON lists, as in `DeadLetter.to_json`.
        scope: namespace and window.
    """

    entity_key: bytes
    seq: int
    event: str | None
    event_type: str | None
    event_bytes: str | None
    error_type: str
    message: str
    reason: str | None
    attempts: int
    calls: str
    trace_events: str
    scope: str


class TraceRow(NamedTuple):
    """A trace event in columns; `attributes` is a JSON object, ids are hexadecimal."""

    event_type: str
    trace_id: str
    span_id: str
    parent_span_id: str
    entity_key: bytes
    seq: int
    step_index: int
    attributes: str
    start_ms: int
    end_ms: int


registry.register_coder(DeadLetterRow, RowCoder)
registry.register_coder(TraceRow, RowCoder)

_encode: Any = FastPrimitivesCoder().encode


def dead_letter_row(letter: DeadLetter) -> DeadLetterRow:
    """The columns of `letter`."""
    told = letter.to_json(_encode)
    return DeadLetterRow(
        entity_key=letter.entity_key,
        seq=letter.seq,
        event=_json(told["event"]) if "event" in told else None,
        event_type=told.get("event_type"),
        event_bytes=told.get("event_bytes"),
        error_type=letter.error_type,
        message=letter.message,
        reason=letter.reason,
        attempts=letter.attempts,
        calls=_json(told["calls"]),
        trace_events=_json(told["trace_events"]),
        scope=letter.scope,
    )


def trace_row(event: TraceEvent) -> TraceRow:
    """The columns of `event`."""
    told = event_to_json(event)
    return TraceRow(
        event_type=str(told["event_type"]),
        trace_id=told["trace_id"],
        span_id=told["span_id"],
        parent_span_id=told["parent_span_id"],
        entity_key=event.entity_key,
        seq=event.seq,
        step_index=event.step_index,
        attributes=_json(told["attributes"]),
        start_ms=event.start_ms,
        end_ms=event.end_ms,
    )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
