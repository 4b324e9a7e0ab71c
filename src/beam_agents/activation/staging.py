"""An activation's effects, held back until it succeeds; trace ids as pure functions of its position."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

import orjson

from beam_agents import attributes as names
from beam_agents.ports import SetAside
from beam_agents.proto import TraceEvent
from beam_agents.values import TokenUsage

__all__ = ["ActivationStaging", "Position", "Scope"]

_NO_USAGE: Final = TokenUsage(0, 0, 0)
_TRACES: Final = uuid5(NAMESPACE_DNS, "beam-agents").bytes


@dataclass(frozen=True, slots=True)
class Scope:
    """What positions are counted in.

    Attributes:
        namespace: names the step of the pipeline.
        window: names the window; empty for the global one.
    """

    namespace: str = ""
    window: str = ""

    @property
    def label(self) -> str:
        """The scope as journal records carry it."""
        return f"{self.namespace}@{self.window}" if self.window else self.namespace


@dataclass(frozen=True, slots=True)
class Position:
    """Where an activation stands: the `seq`-th event of `entity_key` in `scope`."""

    scope: Scope
    entity_key: bytes
    seq: int

    @property
    def trace_id(self) -> bytes:
        """16 bytes, the uuid5 of `[namespace, window, entity key in hex, seq]`; the same for every run."""
        scope = self.scope
        return _uuid5(_TRACES, orjson.dumps([scope.namespace, scope.window, self.entity_key.hex(), self.seq]))


class ActivationStaging:
    """Collects events and billed usage of one activation; a `StagingSink`.

    Stamps trace id, span id and parent onto every event: pure functions of position, step and, where one step
    was asked more than once, of how often. Takes nothing more once sealed. `set_aside` are answered requests of earlier
    runs that this one gave up.
    """

    __slots__ = ("_sealed", "_seen", "_span_id", "_trace_id", "_written", "set_aside", "usage")

    def __init__(self, position: Position, set_aside: tuple[SetAside, ...] = ()) -> None:
        self.set_aside = set_aside
        self._trace_id = position.trace_id
        self._span_id = _span_id(self._trace_id, "activation")
        self._written: list[bytes] = []
        self._seen: dict[int, int] = {}
        self._sealed = False
        self.usage = _NO_USAGE

    @property
    def written(self) -> tuple[bytes, ...]:
        """The LLM_CALL events so far, serialized, in the order of their ends: a message takes eight times as much."""
        return tuple(self._written)

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The LLM_CALL events so far, in the order of their ends."""
        return tuple(map(TraceEvent.FromString, self._written))

    def stage_trace_event(self, event: TraceEvent) -> None:
        """Correlate `event` and keep it."""
        if self._sealed:
            return
        step_index = event.step_index
        occurrence = self._seen.get(step_index, 0)
        self._seen[step_index] = occurrence + 1
        name = f"call:{step_index}" + (f":{occurrence}" if occurrence else "")
        event.trace_id, event.parent_span_id = self._trace_id, self._span_id
        event.span_id = _span_id(self._trace_id, name)
        self._written.append(event.SerializeToString())

    def withdraw_unsent(self, step_index: int) -> None:
        """Take back the latest event of a step that sent nothing and is about to be asked again."""
        for place in range(len(self._written) - 1, -1, -1):
            event = TraceEvent.FromString(self._written[place])
            if event.step_index == step_index:
                if event.attributes[names.ATTEMPTS] == "0":
                    del self._written[place]
                    self._seen[step_index] -= 1
                return

    def accumulate_usage(self, usage: TokenUsage) -> None:
        """Add billed usage."""
        if not self._sealed:
            self.usage = self.usage + usage

    def seal(self) -> None:
        """Take nothing more: the activation is over."""
        self._sealed = True

    def activation_event(
        self, position: Position, start_ms: int, end_ms: int, error: BaseException | None, agent: str = ""
    ) -> TraceEvent:
        """The ACTIVATION event, parent of the LLM_CALL events."""
        found = {names.OUTCOME: "committed" if error is None else "dead_letter"}
        if error is not None:
            found[names.ERROR_TYPE] = type(error).__name__
        if agent:
            found[names.GEN_AI_AGENT_NAME] = agent
        if self.set_aside:
            found[names.ATTEMPT_LOG] = orjson.dumps([_logged(one) for one in self.set_aside]).decode()
        return TraceEvent(
            trace_id=self._trace_id,
            span_id=self._span_id,
            entity_key=position.entity_key,
            seq=position.seq,
            event_type=TraceEvent.ACTIVATION,
            attributes=found,
            start_ms=start_ms,
            end_ms=end_ms,
        )


def _logged(one: SetAside) -> dict[str, object]:
    logged: dict[str, object] = {
        "id": one.call.attempt_id(one.ordinal),
        "outcome": "answered",
        "error": "SetAside",
        "model": one.call.model_id,
    }
    if one.usage is not None:
        logged |= {"input_tokens": one.usage.prompt_tokens, "output_tokens": one.usage.completion_tokens}
    return logged


def _span_id(trace_id: bytes, name: str) -> bytes:
    return _uuid5(trace_id, name.encode())[:8]


def _uuid5(namespace: bytes, name: bytes) -> bytes:
    """The bytes of `uuid.uuid5`, without its objects."""
    digest = bytearray(sha1(namespace + name, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)
