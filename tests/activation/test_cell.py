from __future__ import annotations

import pytest

from beam_agents.activation.cell import new_cell, read_cell, write_cell


def test_a_cell_comes_back_as_it_was_written():
    cell = new_cell()
    cell.next_seq, cell.agent_state = 3, b'{"a":1}'
    cell.queue.add(seq=3, event_time_micros=5, event=b"e")
    assert read_cell(write_cell(cell)) == cell


def test_the_bytes_of_version_1_are_read_for_ever():
    cell = read_cell(bytes.fromhex("080110031a077b2261223a317d2a09080310051a016520073004"))
    assert (cell.next_seq, cell.agent_state, cell.next_position) == (3, b'{"a":1}', 4)
    assert [(one.seq, one.event_time_micros, one.event, one.deadline_ms) for one in cell.queue] == [(3, 5, b"e", 7)]


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="of 2 bytes is not an AgentCell"):
        read_cell(b"\x08\xff")


@pytest.mark.parametrize("stored", [None, b""])
def test_nothing_stored_is_a_new_cell(stored):
    assert read_cell(stored) == new_cell()


def test_a_newer_version_is_refused():
    cell = new_cell()
    cell.state_schema_version = 99
    with pytest.raises(ValueError, match=r"schema version 99.*upgrade beam-agents"):
        read_cell(write_cell(cell))
