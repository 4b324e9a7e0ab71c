"""What each side says: the endpoint's ledger, the workers' outputs, and the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.exporters.jsonl import event_from_json
from beam_agents.proto import TraceEvent

__all__ = ["Entry", "Outputs", "read_ledger", "read_outputs"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One request, as the endpoint counted it. `kind` is `answered` or one of its faults."""

    serial: int
    call: str
    subject: str
    prompt: str
    kind: str
    status: int | None
    input_tokens: int
    output_tokens: int
    arrived: float
    ended: float
    gone: bool

    @property
    def charged(self) -> bool:
        """Whether the endpoint made an answer, and charges for it."""
        return self.output_tokens > 0


@dataclass(slots=True)
class Outputs:
    """All that the workers of a round put out, those of killed ones included."""

    main: list[dict[str, Any]] = field(default_factory=list)
    traces: list[TraceEvent] = field(default_factory=list)
    errors: list[DeadLetter] = field(default_factory=list)


def read_ledger(path: Path) -> list[Entry]:
    """Every request that reached the endpoint."""
    return [Entry(**line) for line in _lines([path])]


def read_outputs(directory: Path) -> Outputs:
    """Everything that was put out."""
    found = Outputs()
    for line in _lines(sorted(directory.glob("out-*.jsonl"))):
        if "main" in line:
            found.main.append(line["main"])
        elif "trace" in line:
            found.traces.append(event_from_json(line["trace"]))
        else:
            found.errors.append(DeadLetter.from_json(line["error"]))
    return found


def _lines(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        for line in path.read_text().splitlines():
            yield json.loads(line)
