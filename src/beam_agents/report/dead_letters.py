"""What a report reads from one line of a file of dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_agents.exporters.jsonl import entity_key_from_json, event_from_json
from beam_agents.proto import TraceEvent
from beam_agents.values import TokenUsage

__all__ = ["Letter", "LetterCall"]


@dataclass(frozen=True, slots=True)
class LetterCall:
    """One request of a dead letter: its attempt id, its class of spend, its tokens when known."""

    attempt_id: str
    spend: str
    usage: TokenUsage | None


@dataclass(frozen=True, slots=True)
class Letter:
    """The facts of one dead letter; its event is not read."""

    entity_key: bytes
    seq: int
    error_type: str
    message: str
    reason: str
    attempts: int
    calls: tuple[LetterCall, ...]
    events: tuple[TraceEvent, ...]
    scope: str
    start_ms: int
    end_ms: int

    @property
    def trace_id(self) -> bytes:
        """That of its events, or empty when it has none."""
        return self.events[0].trace_id if self.events else b""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Letter:
        """Read a dead letter's JSON object.

        Raises:
            ValueError: when it is no dead letter; the message says why.
        """
        if "error_type" not in value or "entity_key" not in value:
            raise ValueError("a dead letter has the fields error_type and entity_key; is this a file of errors?")
        try:
            return cls(
                entity_key=entity_key_from_json(value["entity_key"]),
                seq=int(value.get("seq") or 0),
                error_type=str(value["error_type"]),
                message=str(value.get("message") or ""),
                reason=str(value.get("reason") or ""),
                attempts=int(value.get("attempts") or 0),
                calls=tuple(_call(call) for call in _list(value, "calls")),
                events=tuple(event_from_json(event) for event in _list(value, "trace_events")),
                scope=str(value.get("scope") or ""),
                start_ms=int(value.get("start_ms") or 0),
                end_ms=int(value.get("end_ms") or 0),
            )
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"a dead letter has a field of the wrong type: {error}") from error


def _list(value: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = value.get(name) or []
    if not isinstance(found, list):
        raise ValueError(f"{name} must be a list, not {found!r:.80}")
    return found


def _call(value: Mapping[str, Any]) -> LetterCall:
    usage = value.get("usage")
    return LetterCall(str(value["id"]), str(value["class"]), None if usage is None else TokenUsage(**usage))
