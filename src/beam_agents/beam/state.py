"""The one state cell of a key and window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apache_beam.coders import Coder

from beam_agents.activation.cell import new_cell, read_cell, write_cell
from beam_agents.proto import LlmCacheBlob

__all__ = ["AgentCellCoder", "CellValue"]


@dataclass(frozen=True, slots=True)
class CellValue:
    """What is committed for a key.

    Attributes:
        next_seq: seq of the next event.
        state: the agent's own state as JSON; empty for none.
        cache: a serialized `LlmCacheBlob`; empty for none.
    """

    next_seq: int = 0
    state: bytes = b""
    cache: bytes = b""


class AgentCellCoder(Coder):  # type: ignore[misc]
    """Writes `CellValue` as an `AgentCell` of the current schema version; reads every version up to it."""

    def encode(self, value: CellValue) -> bytes:
        cell = new_cell()
        cell.next_seq, cell.agent_state = value.next_seq, value.state
        if value.cache:
            cell.cache.CopyFrom(LlmCacheBlob.FromString(value.cache))
        return write_cell(cell)

    def decode(self, encoded: bytes) -> CellValue:
        """Raises `ValueError` for bytes that are no cell, or of a newer version."""
        cell = read_cell(encoded)
        cache = cell.cache.SerializeToString(deterministic=True) if cell.HasField("cache") else b""
        return CellValue(cell.next_seq, cell.agent_state, cache)

    def is_deterministic(self) -> bool:
        return True

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))
