"""Dead letters as input: each event again, at the position it had, so that stored answers are found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from beam_agents.activation.agent import Agent, agent_name
from beam_agents.activation.dead_letter import DeadLetter, EncodedEvent
from beam_agents.cli.complaint import Complaint
from beam_agents.exporters.jsonl import JsonLineError, JsonLines, open_lines

__all__ = ["AtPosition", "RetriedEvent", "original_event", "position_of", "read_dead_letters"]


@dataclass(frozen=True, slots=True)
class RetriedEvent:
    """An event and the position that it had."""

    seq: int
    event: Any


@dataclass(frozen=True, slots=True)
class AtPosition:
    """An agent over `RetriedEvent`s: `agent` sees the events themselves."""

    agent: Agent

    @property
    def __name__(self) -> str:
        return agent_name(self.agent)

    async def __call__(self, ctx: Any, retried: RetriedEvent) -> Any:
        return await self.agent(ctx, retried.event)


def position_of(event: RetriedEvent) -> int:
    """The position that the event had; for `AgentConfig.sequence`."""
    return event.seq


def original_event(letter: DeadLetter) -> DeadLetter:
    """The dead letter with the event itself, so that it can be run again once more."""
    return replace(letter, event=letter.event.event) if isinstance(letter.event, RetriedEvent) else letter


def read_dead_letters(path: str) -> tuple[list[tuple[bytes, RetriedEvent]], str]:
    """The keyed events of a file of dead letters, and the namespace that all of them come from.

    Raises:
        Complaint: when the file cannot be read, holds none, or mixes namespaces or windows.
    """
    try:
        with open_lines(path) as stream:
            letters = list(JsonLines(stream, _letter, name=path))
    except OSError as error:
        raise Complaint(f"{path} cannot be read: {error.strerror or error}") from error
    except JsonLineError as error:
        raise Complaint(f"{error}; --retry-errors takes the errors.jsonl of an earlier run") from error
    if not letters:
        raise Complaint(f"{path} holds no dead letters: there is nothing to run again")
    scopes = {letter.scope for letter in letters}
    if len(scopes) > 1:
        raise Complaint(f"{path} mixes dead letters of {len(scopes)} namespaces or windows; run them apart")
    return [(letter.entity_key, RetriedEvent(letter.seq, letter.event)) for letter in letters], scopes.pop()


def _letter(value: Any) -> DeadLetter:
    try:
        letter = DeadLetter.from_json(value)
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no dead letter ({error!r})") from error
    if isinstance(letter.event, EncodedEvent):
        raise ValueError(f"its event is a {letter.event.type_name}, which only its own pipeline can run again")
    return letter
