"""The one state cell of a key, as bytes."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from beam_agents.proto import AgentCell

__all__ = ["new_cell", "read_cell", "write_cell"]

_SCHEMA_VERSION = 1


def new_cell() -> AgentCell:
    """The cell of a key that has none yet."""
    return AgentCell(state_schema_version=_SCHEMA_VERSION)


def read_cell(stored: bytes | None) -> AgentCell:
    """The cell that was stored, or a new one.

    Raises:
        ValueError: for bytes that are no cell, or of a newer version.
    """
    if not stored:
        return new_cell()
    try:
        cell: AgentCell = AgentCell.FromString(stored)
    except DecodeError as error:
        raise ValueError(f"the state cell of {len(stored)} bytes is not an AgentCell") from error
    if cell.state_schema_version > _SCHEMA_VERSION:
        raise ValueError(
            f"the state cell was written with schema version {cell.state_schema_version}, "
            f"this version reads up to {_SCHEMA_VERSION}: upgrade beam-agents"
        )
    return cell


def write_cell(cell: AgentCell) -> bytes:
    """The cell as bytes."""
    return cell.SerializeToString(deterministic=True)
