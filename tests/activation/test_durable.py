from __future__ import annotations

import json

import pytest

from beam_agents.activation import AgentConfig, Scope, resources_for
from beam_agents.activation.cell import new_cell, read_cell, write_cell
from beam_agents.activation.durable import DurableEvents, durable_events_for
from beam_agents.errors import JournalOpenError
from beam_agents.testing import FakeLLM

KEY = b"k"


def config(**given):
    return AgentConfig(provider=FakeLLM, decode=json.loads, **given)


def events_of(agent, **given):
    return DurableEvents(agent, resources_for(config(**given)), Scope("test"))


async def counting(ctx, event):
    ctx.state = (ctx.state or 0) + 1
    return [ctx.seq, event, ctx.state]


def test_what_is_queued_comes_out_in_order_and_leaves_the_cell():
    events, cell = events_of(counting), new_cell()
    for n in range(3):
        events.add(cell, f"e{n}", 1_000 + n, deadline_ms=9)
    assert [(one.seq, one.deadline_ms) for one in cell.queue] == [(0, 9), (1, 9), (2, 9)]
    drained = list(events.drain(KEY, cell))
    assert [one.outcome.outputs for one in drained] == [([n, f"e{n}", n + 1],) for n in range(3)]
    assert [one.queued.event_time_micros for one in drained] == [1_000, 1_001, 1_002]
    assert (cell.next_seq, cell.next_position, cell.agent_state, len(cell.queue)) == (3, 3, b"3", 0)


def test_another_process_goes_on_from_the_cell():
    cell = new_cell()
    events_of(counting).add(cell, "e", 0)
    stored = read_cell(write_cell(cell))
    assert [one.outcome.outputs for one in events_of(counting).drain(KEY, stored)] == [([0, "e", 1],)]


def test_a_cell_that_was_committed_with_a_bundle_is_gone_on_with():
    events, cell = events_of(counting), new_cell()
    cell.next_seq, cell.agent_state = 3, b"3"
    events.add(cell, "e", 0)
    assert [one.outcome.outputs for one in events.drain(KEY, cell)] == [([3, "e", 4],)]


def test_advance_never_waits_and_takes_out_what_is_finished():
    events, cell = events_of(counting), new_cell()
    events.add(cell, "e", 0)
    taken = events.advance(KEY, cell)
    while events.is_running(KEY):
        pass
    taken += events.advance(KEY, cell)
    assert [one.outcome.outputs for one in taken] == [([0, "e", 1],)]


def test_an_event_that_cannot_tell_its_position_is_a_dead_letter_in_its_turn():
    events, cell = events_of(counting, sequence=lambda event: event["id"]), new_cell()
    for event in ({"id": 4}, {}, {"id": "x"}, {"id": 9}):
        events.add(cell, event, 0)
    outcomes = [one.outcome for one in events.drain(KEY, cell)]
    assert [one.position.seq for one in outcomes] == [4, 5, 6, 9]
    assert [one.dead_letter and one.dead_letter.error_type for one in outcomes] == [None, "KeyError", "TypeError", None]
    assert cell.next_seq == 10


def test_a_failed_activation_stays_in_the_cell_when_it_is_to_fail_the_job():
    async def failing(ctx, event):
        raise ValueError("no")

    events, cell = events_of(failing, on_error="raise"), new_cell()
    events.add(cell, "e", 0)
    with pytest.raises(RuntimeError, match="seq 0 failed with ValueError: no; on_error='raise'"):
        list(events.drain(KEY, cell))
    assert len(cell.queue) == 1


def test_a_journal_that_cannot_be_opened_is_no_dead_letter(tmp_path):
    async def asking(ctx, event):
        await ctx.complete("hello")

    events, cell = events_of(asking, journal=f"sqlite:///{tmp_path}/no/such/folder/journal.db"), new_cell()
    events.add(cell, "e", 0)
    with pytest.raises(JournalOpenError):
        list(events.drain(KEY, cell))
    assert len(cell.queue) == 1


def test_a_step_that_starts_again_in_one_process_finds_its_events():
    settings = config()
    first = durable_events_for(counting, settings, Scope("test"), "step")
    assert durable_events_for(counting, settings, Scope("test"), "step") is first
    assert durable_events_for(counting, settings, Scope("test"), "other") is not first
