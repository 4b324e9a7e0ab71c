"""The one state cell of a key and window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apache_beam.coders import Coder
from google.protobuf.message import DecodeError

from beam_agents.proto import AgentCell, LlmCacheBlob

__all__ = ["AgentCellCoder", "CellValue"]

_SCHEMA_VERSION = 1


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
        cell = AgentCell(state_schema_version=_SCHEMA_VERSION, next_seq=value.next_seq, agent_state=value.state)
        if value.cache:
            cell.cache.CopyFrom(LlmCacheBlob.FromString(value.cache))
        encoded: bytes = cell.SerializeToString(deterministic=True)
        return encoded

    def decode(self, encoded: bytes) -> CellValue:
        """Raises `ValueError` for bytes that are no cell, or of a newer version."""
        try:
            cell = AgentCell.FromString(encoded)
        except DecodeError as error:
            raise ValueError(f"the state cell of {len(encoded)} bytes is not an AgentCell") from error
        if cell.state_schema_version > _SCHEMA_VERSION:
            raise ValueError(
                f"the state cell was written with schema version {cell.state_schema_version}, "
                f"this version reads up to {_SCHEMA_VERSION}: upgrade beam-agents"
            )
        cache = cell.cache.SerializeToString(deterministic=True) if cell.HasField("cache") else b""
        return CellValue(cell.next_seq, cell.agent_state, cache)

    def is_deterministic(self) -> bool:
        return True

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))
