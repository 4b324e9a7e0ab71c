"""The state cell: what was written by any version is read by this one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.beam.state import AgentCellCoder, CellValue
from beam_agents.model import ReplayCache
from beam_agents.proto import AgentCell

GOLDEN = {
    "version 1, new key": ("0801", CellValue()),
    "version 1, counted": ("08011003", CellValue(3)),
    "version 1, with state": ("080110051a077b226e223a317d", CellValue(5, b'{"n":1}')),
    "before versions were written": ("1002", CellValue(2)),
}


@pytest.mark.parametrize(("blob", "value"), GOLDEN.values(), ids=GOLDEN.keys())
def test_golden_cells_are_read(blob: str, value: CellValue) -> None:
    assert AgentCellCoder().decode(bytes.fromhex(blob)) == value


@pytest.mark.parametrize("name", [name for name in GOLDEN if name.startswith("version 1")])
def test_golden_cells_are_written(name: str) -> None:
    blob, value = GOLDEN[name]
    assert AgentCellCoder().encode(value).hex() == blob


def test_the_replay_cache_travels_in_the_cell() -> None:
    cache = ReplayCache(now_ms=5)
    cache.put("a" * 64, b"answer")
    coder = AgentCellCoder()
    back = coder.decode(coder.encode(CellValue(1, b"", cache.to_blob())))
    kept = ReplayCache(back.cache, now_ms=6).get("a" * 64)
    assert kept is not None
    assert kept.response == b"answer"


def test_a_cell_of_a_newer_version_is_refused() -> None:
    with pytest.raises(ValueError, match="upgrade beam-agents"):
        AgentCellCoder().decode(AgentCell(state_schema_version=2).SerializeToString())


def test_bytes_that_are_no_cell_are_refused() -> None:
    with pytest.raises(ValueError, match="not an AgentCell"):
        AgentCellCoder().decode(b"\xff\xff\xff")


def test_fields_of_later_additive_changes_are_ignored() -> None:
    later = bytes.fromhex("08011003") + bytes.fromhex("f80601")  # field 111, varint
    assert AgentCellCoder().decode(later) == CellValue(3)


@given(st.integers(0, 2**62), st.binary(max_size=50))
def test_cells_come_back_and_are_written_the_same(next_seq: int, state: bytes) -> None:
    coder = AgentCellCoder()
    value = CellValue(next_seq, state)
    assert coder.decode(coder.encode(value)) == value
    assert coder.is_deterministic()
