"""The outputs of a transform and how they travel."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson
from apache_beam import PCollection
from apache_beam.coders import Coder, FastPrimitivesCoder, ProtoCoder, registry

from beam_agents.activation.dead_letter import DeadLetter, EncodedEvent
from beam_agents.proto import TraceEvent

__all__ = ["AgentOutputs", "DeadLetterCoder", "register_coders"]


class AgentOutputs(NamedTuple):
    """What a transform over agents puts out.

    Attributes:
        main: what the agents emitted, in the windows and at the times of their events.
        traces: a `TraceEvent` for each activation and for each call of a committed activation.
        errors: a `DeadLetter` for each activation that failed.
    """

    main: PCollection[Any]
    traces: PCollection[TraceEvent]
    errors: PCollection[DeadLetter]


class DeadLetterCoder(Coder):  # type: ignore[misc]
    """Writes a `DeadLetter` as a JSON object; an event that is no JSON as the bytes of Beam's own coder."""

    _events = FastPrimitivesCoder()

    def encode(self, value: DeadLetter) -> bytes:
        return orjson.dumps(value.to_json(self._events.encode), option=orjson.OPT_SORT_KEYS)

    def decode(self, encoded: bytes) -> DeadLetter:
        letter = DeadLetter.from_json(orjson.loads(encoded))
        if isinstance(letter.event, EncodedEvent):
            object.__setattr__(letter, "event", self._events.decode(letter.event.data))
        return letter

    def is_deterministic(self) -> bool:
        return True

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


def register_coders() -> None:
    """Tell Beam how trace events and dead letters travel. Idempotent."""
    registry.register_coder(TraceEvent, ProtoCoder)
    registry.register_coder(DeadLetter, DeadLetterCoder)
