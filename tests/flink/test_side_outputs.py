"""What leaves an operator of agents, and how it is parted. Runs where PyFlink is installed (requirements/flink.txt)."""

from __future__ import annotations

import json

import pytest

from beam_agents.activation import DeadLetter, Outcome, Position, Scope
from beam_agents.flink.side_outputs import Parting, Tags, letter_row, rows_of

HERE = Position(Scope("step"), b"k", 0)
TIME_MS = 7


def parted(rows):
    """Outputs, traces and dead letters, in the order in which they come."""
    tags = Tags.of_agents()
    found = [one for row in rows for one in Parting(tags).process_element(row, None)]
    sides = [one for one in found if isinstance(one, tuple)]
    return (
        [one for one in found if not isinstance(one, tuple)],
        [data for tag, data in sides if tag.tag_id == tags.traces.tag_id],
        [json.loads(data) for tag, data in sides if tag.tag_id == tags.errors.tag_id],
    )


@pytest.mark.parametrize("outputs", [(), ("one",), ("one", "two", "three"), (None,)])
def test_outputs_and_traces_come_out_as_they_went_in(outputs):
    traces = (b"activation", b"call")
    rows = rows_of(Outcome(HERE, outputs, traces), TIME_MS)
    assert parted(rows) == (list(outputs), list(traces), [])
    assert len(rows) == max(1, len(outputs))
    assert {row[4] for row in rows} == {TIME_MS}


def test_a_dead_letter_comes_alone():
    letter = DeadLetter.of(HERE, "event", ValueError("no"))
    failed = rows_of(Outcome(HERE, dead_letter=letter), TIME_MS)
    assert parted(failed) == parted([letter_row(letter, TIME_MS)]) == ([], [], [letter.to_json()])
