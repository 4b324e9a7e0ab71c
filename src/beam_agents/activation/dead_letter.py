"""The record of an activation that failed: what was asked, what went wrong, what it cost."""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from beam_agents import attributes as names
from beam_agents.activation.events import exact_json
from beam_agents.activation.saying import reason_of, said_by
from beam_agents.activation.spend import CallSpend, discarded_calls
from beam_agents.activation.staging import Position
from beam_agents.errors import AnswerNotJournaledError
from beam_agents.exporters.jsonl import entity_key_from_json, entity_key_to_json, event_from_json, event_to_json
from beam_agents.proto import TraceEvent
from beam_agents.values import JsonObject, TokenUsage

__all__ = ["DeadLetter", "EncodedEvent"]

_MESSAGE_CHARS = 4_000
_WORD = re.compile(r"[a-z][a-z_]{0,39}")


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """An event that JSON cannot hold: the name of its type, and its bytes as they were encoded."""

    type_name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One failed activation. It committed nothing but its position.

    Attributes:
        entity_key: key of the activation.
        seq: position of the event among those of its key.
        event: the event, as the agent got it.
        error_type: name of the error's class.
        message: what the error says, with what looks like a provider's key masked.
        reason: the error's machine-readable reason, where it has one, such as `schema_violation`.
        attempts: requests on the wire that this activation made.
        calls: every request with the class of its spend and its tokens.
        trace_events: one ACTIVATION event, then the LLM_CALL events; they are committed nowhere else. Empty for an
            activation that could not begin.
        scope: namespace and window of the position.
        answer: bytes of a paid answer that could not be journaled, or `None`.
        start_ms, end_ms: when the activation ran, in milliseconds since the epoch.
    """

    entity_key: bytes
    seq: int
    event: Any
    error_type: str
    message: str
    reason: str | None = None
    attempts: int = 0
    calls: tuple[CallSpend, ...] = ()
    trace_events: tuple[TraceEvent, ...] = ()
    scope: str = ""
    answer: bytes | None = None
    start_ms: int = 0
    end_ms: int = 0

    @classmethod
    def of(
        cls,
        position: Position,
        event: Any,
        error: BaseException,
        events: tuple[TraceEvent, ...] = (),
        *,
        start_ms: int = 0,
        end_ms: int = 0,
    ) -> DeadLetter:
        """The dead letter of an activation that `error` ended."""
        return cls(
            entity_key=position.entity_key,
            seq=position.seq,
            event=event,
            error_type=type(error).__name__,
            message=said_by(error)[:_MESSAGE_CHARS],
            reason=reason_of(error),
            attempts=sum(int(one.attributes.get(names.ATTEMPTS, 0)) for one in events),
            calls=discarded_calls(events),
            trace_events=events,
            scope=position.scope.label,
            answer=error.response if isinstance(error, AnswerNotJournaledError) else None,
            start_ms=start_ms,
            end_ms=end_ms,
        )

    @property
    def kind(self) -> str:
        """What failed, without anything that the error says: its class, and its reason where that is one word."""
        return f"{self.error_type}.{self.reason}" if self.reason and _WORD.fullmatch(self.reason) else self.error_type

    def to_json(self, encode_event: Callable[[Any], bytes] = pickle.dumps) -> dict[str, Any]:
        """The dead letter as a JSON object; `from_json` turns it back.

        An event that JSON holds exactly stands under `event`; of any other, `event_type` names the type and
        `event_bytes` holds what `encode_event` made of it, in base64.
        """
        told: dict[str, Any] = {
            "entity_key": entity_key_to_json(self.entity_key),
            "seq": self.seq,
            "error_type": self.error_type,
            "message": self.message,
            "reason": self.reason,
            "attempts": self.attempts,
            "calls": [
                {"id": call.id, "class": call.class_, "usage": call.usage and asdict(call.usage)} for call in self.calls
            ],
            "trace_events": [event_to_json(event) for event in self.trace_events],
            "scope": self.scope,
            "answer": None if self.answer is None else base64.b64encode(self.answer).decode(),
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
        }
        if isinstance(self.event, EncodedEvent):
            return told | _encoded(self.event)
        if exact_json(self.event) is not None:
            return told | {"event": self.event}
        kind = type(self.event)
        return told | _encoded(EncodedEvent(f"{kind.__module__}.{kind.__qualname__}", encode_event(self.event)))

    @classmethod
    def from_json(cls, value: JsonObject) -> DeadLetter:
        """The dead letter that `to_json` was called on; an event that is no JSON stays an `EncodedEvent`.

        Raises:
            KeyError, TypeError, ValueError: when `value` is not such an object.
        """
        found: dict[str, Any] = dict(value)
        answer = found.get("answer")
        return cls(
            entity_key=entity_key_from_json(found["entity_key"]),
            seq=found["seq"],
            event=_event_from_json(found),
            error_type=found["error_type"],
            message=found["message"],
            reason=found.get("reason"),
            attempts=found.get("attempts", 0),
            calls=tuple(
                CallSpend(call["id"], call["class"], _usage_from_json(call.get("usage")))
                for call in found.get("calls", ())
            ),
            trace_events=tuple(event_from_json(event) for event in found.get("trace_events", ())),
            scope=found.get("scope", ""),
            answer=None if answer is None else base64.b64decode(answer),
            start_ms=found.get("start_ms", 0),
            end_ms=found.get("end_ms", 0),
        )


def _event_from_json(found: dict[str, Any]) -> Any:
    if "event_bytes" in found:
        return EncodedEvent(found["event_type"], base64.b64decode(found["event_bytes"]))
    return found["event"]


def _encoded(event: EncodedEvent) -> dict[str, Any]:
    return {"event_type": event.type_name, "event_bytes": base64.b64encode(event.data).decode()}


def _usage_from_json(value: dict[str, Any] | None) -> TokenUsage | None:
    return None if value is None else TokenUsage(**value)
