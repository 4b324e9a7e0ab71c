"""The keyed function on a stand-in of Flink's side. Runs where PyFlink is installed (requirements/flink.txt)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace

import pytest
from pyflink.common import Time, Types
from pyflink.datastream import TimeDomain
from pyflink.datastream.state import StateTtlConfig

from beam_agents.activation import AgentConfig, DeadLetter
from beam_agents.activation.cell import read_cell, write_cell
from beam_agents.errors import JournalOpenError
from beam_agents.flink.buckets import KeyedBucketing, bucket_of
from beam_agents.flink.function import AgentFunction, Step
from beam_agents.flink.outputs import to_text
from beam_agents.flink.streams import time_to_live
from beam_agents.flink.types import BYTES
from beam_agents.proto import TraceEvent
from beam_agents.testing import FakeLLM, match_any, respond_with
from beam_agents.values import DecodedResponse, TokenUsage
from tests.flink.engine import Engine

NO_TIME_MS = -(2**63)


def decode(data):
    return DecodedResponse(TokenUsage(3, 4, 7), data.decode())


def engine_for(agent, *, with_metrics=True, **given):
    model = FakeLLM([(match_any(), respond_with(b"answer"))])
    config = AgentConfig(provider=lambda: model, decode=decode, **given)
    function = AgentFunction(agent, config, Step("test", "test", to_text, time_to_live(config, None)))
    engine = Engine(function, TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME, before=KeyedBucketing())
    engine.with_metrics = with_metrics
    return engine.open(), model


def restored(engine, timers=None):
    """Another process, with the state of `engine`: nothing in memory."""
    given = engine.function
    timers = engine.timers if timers is None else timers
    return Engine(
        AgentFunction(given._agent, replace(given._config), given._step),
        engine.event_time,
        engine.processing_time,
        now_ms=engine.now_ms,
        before=KeyedBucketing(),
        maps={name: dict(entries) for name, entries in engine.maps.items()},
        timers={domain: set(held) for domain, held in timers.items()},
    ).open()


def cells(engine, name):
    return {key: read_cell(data) for key, data in engine.held(f"beam_agents.{name}").items()}


def queued(engine):
    return {key: cell for key, cell in cells(engine, "waiting").items() if cell.queue}


def idle(engine):
    """Of all keys without events, wherever they lie."""
    resting = {key: cell for key, cell in cells(engine, "waiting").items() if not cell.queue}
    return cells(engine, "cells") | resting


def values(rows):
    return [(row[4], json.loads(row[1])) for row in rows if row[0]]


def traces_of(rows):
    return [TraceEvent.FromString(data) for row in rows for data in row[2] or ()]


def letters_of(rows):
    return [DeadLetter.from_json(json.loads(row[3])) for row in rows if row[3] is not None]


def settled(engine):
    """Let time pass until nothing waits any more; what came out."""
    outputs = []
    for _ in range(400):
        outputs += engine.advance(100)
        if not queued(engine):
            return outputs
        threading.Event().wait(0.005)
    raise AssertionError("the function still waits")


async def counting(ctx, event):
    ctx.state = (ctx.state or 0) + 1
    result = await ctx.complete(f"about {event}")
    return [event, ctx.seq, ctx.state, result.text]


def test_outputs_come_in_order_at_the_times_of_their_events():
    engine, _ = engine_for(counting)
    early = [one for n in range(3) for one in engine.element("k", f"e{n}", 50 + n)]
    found = values(early + settled(engine))
    assert found == [(50 + n, [f"e{n}", n, n + 1, "answer"]) for n in range(3)]


def test_the_event_is_durable_before_its_call_ends():
    go = threading.Event()

    async def waiting(ctx, event):
        await asyncio.to_thread(go.wait, 10)

    engine, _ = engine_for(waiting)
    engine.element("k", {"a": 1}, 7)
    cell = queued(engine)[b"k"]
    assert engine.counters["queued_keys"] == 1
    go.set()
    assert [(one.seq, one.event_time_micros, one.event) for one in cell.queue] == [(0, 7000, b'j{"a":1}')]
    assert [row[4] for row in settled(engine)] == [7]


def test_state_output_and_traces_change_in_one_step():
    engine, _ = engine_for(counting)
    outputs = engine.element("k", "e", 1) + settled(engine)
    cell = idle(engine)[b"k"]
    assert (cell.next_seq, cell.next_position, cell.agent_state, len(cell.queue)) == (1, 1, b"1", 0)
    traces = traces_of(outputs)
    assert [trace.event_type for trace in traces] == [TraceEvent.ACTIVATION, TraceEvent.LLM_CALL]
    assert engine.counters["activations_committed"] == 1
    assert [engine.counters[name] for name in ("input_tokens", "call_attempts", "call_input_tokens")] == [3, 1, 3]


def test_state_is_raw_bytes_with_the_time_to_live_of_its_step():
    ttl = StateTtlConfig.new_builder(Time.hours(1)).build()
    function = AgentFunction(counting, AgentConfig(provider=FakeLLM, decode=decode), Step("s", "s", to_text, ttl))
    engine = Engine(function, TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME).open()
    assert [one.type_info for one in engine.descriptors.values()] == [Types.MAP(BYTES(), BYTES())] * 2
    assert engine.descriptors["beam_agents.cells"]._ttl_config is ttl
    assert engine.descriptors["beam_agents.waiting"]._ttl_config is None


def test_idle_keys_leave_no_timers_behind():
    engine, _ = engine_for(counting)
    engine.element("k0", "e", 1)
    settled(engine)
    count = len(engine.timers["processing"])
    for n in range(1, 50):
        engine.element(f"k{n}", "e", 1)
    settled(engine)
    assert len(engine.timers["processing"]) <= count


def test_what_is_missing_after_a_restart_is_started_again():
    engine, _ = engine_for(counting)
    first = values(engine.element("k", "e0", 1) + settled(engine))
    lost = values(engine.element("k", "e1", 2))
    again = restored(engine)
    assert first + lost + values(settled(again)) == [(1, ["e0", 0, 1, "answer"]), (2, ["e1", 1, 2, "answer"])]


def gated():
    """An agent that waits until it may go on."""
    go = threading.Event()

    async def agent(ctx, event):
        await asyncio.to_thread(go.wait, 10)
        return [event, ctx.seq]

    return agent, go


def test_keys_begin_in_the_order_of_their_arrival_when_there_is_room_again():
    go, begun = threading.Event(), []

    async def agent(ctx, event):
        begun.append(event)
        await asyncio.to_thread(go.wait, 10)
        return event

    engine, _ = engine_for(agent, max_in_flight=1)
    outputs = [one for n in range(8) for one in engine.element(f"k{n}", n, n)]
    go.set()
    outputs += [one for n in range(8, 12) for one in [*engine.element(f"k{n}", n, n), *engine.advance(100)]]
    outputs += settled(engine)
    assert sorted(time_ms for time_ms, _ in values(outputs)) == list(range(12))
    assert max(abs(place - n) for place, n in enumerate(begun)) <= 2  # two keys are let in at once


def test_a_key_that_waits_for_room_costs_no_state():
    agent, go = gated()
    engine, _ = engine_for(agent, max_in_flight=1)
    for n in range(20):
        engine.element(f"k{n}", n, n)
    writes = engine.writes
    engine.advance(10_000)
    assert engine.writes == writes
    go.set()
    assert len(values(settled(engine))) == 20


def test_an_event_that_cannot_be_read_any_more_is_a_dead_letter_and_the_next_goes_on():
    agent, go = gated()
    engine, _ = engine_for(agent)
    engine.element("k", {"n": 1}, 1)
    (held,) = [entries for (name, _), entries in engine.maps.items() if name == "beam_agents.waiting" and entries]
    cell = read_cell(held[b"k"])
    cell.queue[0].event = b"pnothing that can be unpickled"
    held[b"k"] = write_cell(cell)
    go.set()
    again = restored(engine)
    outputs = again.element("k", "good", 2) + settled(again)
    (letter,) = letters_of(outputs)
    assert (letter.seq, letter.error_type) == (0, "ValueError")
    assert letter.event.data == b"nothing that can be unpickled"
    assert "in keyed state cannot be read by this version" in letter.message
    assert values(outputs) == [(2, ["good", 1])]


def test_an_agent_that_blocks_the_loop_fails_the_job(monkeypatch):
    monkeypatch.setattr("beam_agents.activation.durable.STALLED_MARGIN_S", 0.0)

    begun, go = threading.Event(), threading.Event()

    async def blocking(ctx, event):
        begun.set()
        go.wait(10)

    engine, _ = engine_for(blocking, activation_timeout_s=0.05)
    engine.element("k", "e", 1)
    assert begun.wait(10)
    engine.advance(200)
    time.sleep(0.3)
    with pytest.raises(RuntimeError, match="an agent has blocked the activation loop"):
        engine.advance(1_000)
    go.set()


def test_without_metrics_agents_run_all_the_same():
    engine, _ = engine_for(counting, with_metrics=False)
    assert values(engine.element("k", "e", 1) + settled(engine)) == [(1, ["e", 0, 1, "answer"])]
    assert not engine.counters


def test_a_newer_agent_in_the_same_process_takes_over():
    config = AgentConfig(provider=FakeLLM, decode=decode)
    told = []
    for version in (1, 2):

        async def agent(ctx, event, version=version):
            return version

        function = AgentFunction(agent, config, Step("newer", "newer", to_text))
        engine = Engine(function, TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME, before=KeyedBucketing()).open()
        told += [value for _, value in values(engine.element("k", "e", 1) + settled(engine))]
    assert told == [1, 2]


def test_cells_of_idle_keys_are_moved_out_of_the_way_by_the_guard():
    engine, _ = engine_for(counting)
    early = engine.element("k", "e0", 1) + settled(engine)
    assert (list(cells(engine, "waiting")), cells(engine, "cells")) == ([b"k"], {})
    engine.advance(40_000)
    assert (cells(engine, "waiting"), list(cells(engine, "cells"))) == ({}, [b"k"])
    late = engine.element("k", "e1", 2) + settled(engine)
    assert [told[1:3] for _, told in values(early + late)] == [[0, 1], [1, 2]]


def test_cells_with_a_time_to_live_are_moved_at_once():
    engine, _ = engine_for(counting, state_ttl_s=60)
    engine.element("k", "e0", 1)
    settled(engine)
    assert (cells(engine, "waiting"), list(cells(engine, "cells"))) == ({}, [b"k"])


def test_an_idle_key_whose_cell_was_not_moved_goes_on_after_a_restart_and_runs_nothing_again():
    engine, model = engine_for(counting)
    early = engine.element("k", "e0", 1) + settled(engine)
    again = restored(engine)
    late = again.element("other", "e", 2) + settled(again) + again.element("k", "e1", 3) + settled(again)
    assert [told[:3] for _, told in values(early + late)] == [["e0", 0, 1], ["e", 0, 1], ["e1", 1, 2]]
    assert model.call_count == 3


def test_a_guard_leaves_a_resting_key_alone_that_has_an_event_again():
    agent, go = gated()
    engine, _ = engine_for(agent)
    go.set()
    early = engine.element("k", "e0", 1) + settled(engine)
    go.clear()
    engine.element("k", "e1", 2)
    engine.advance(20_000)
    assert list(queued(engine)) == [b"k"]
    go.set()
    assert values(early + settled(restored(engine))) == [(1, ["e0", 0]), (2, ["e1", 1])]


def one_rests_and_one_waits():
    """Two keys of one bucket: the first has been answered, the second waits for `go`."""
    agent, go = gated()
    engine, _ = engine_for(agent)
    go.set()
    first, second = [f"k{n}" for n in range(1_000) if bucket_of(b"k%d" % n) == bucket_of(b"k0")][:2]
    early = engine.element(first, "rests", 1) + settled(engine)
    go.clear()
    engine.element(second, "waits", 2)
    return engine, go, first, second, early


def test_a_guard_moves_the_cells_of_a_bucket_of_which_another_key_has_events():
    engine, go, first, second, early = one_rests_and_one_waits()
    engine.advance(40_000)
    assert (list(cells(engine, "waiting")), list(cells(engine, "cells"))) == ([second.encode()], [first.encode()])
    go.set()
    assert values(early + settled(engine)) == [(1, ["rests", 0]), (2, ["waits", 0])]


def test_a_restart_tells_resting_keys_of_a_bucket_from_those_with_events():
    engine, go, first, _, early = one_rests_and_one_waits()
    again = restored(engine)
    go.set()
    assert values(early + settled(again)) == [(1, ["rests", 0]), (2, ["waits", 0])]
    assert values(again.element(first, "goes on", 3) + settled(again)) == [(3, ["goes on", 1])]


def test_a_key_goes_on_after_a_restart_from_where_the_guard_moved_its_cell():
    engine, _ = engine_for(counting)
    engine.element("k", "e0", 1)
    settled(engine)
    engine.advance(40_000)
    again = restored(engine)
    assert values(again.element("k", "e1", 2) + settled(again)) == [(2, ["e1", 1, 2, "answer"])]


def resumed_without_timers():
    """Another process, from a checkpoint that holds an event of `k`, but of its timers only what earlier ones set."""
    agent, go = gated()
    engine, _ = engine_for(agent)
    engine.element("other", "wakes every bucket", 1)
    timers = {domain: set(held) for domain, held in engine.timers.items()}
    engine.element("k", "e", 2)
    again = restored(engine, timers)
    go.set()
    return again


def test_an_event_whose_timers_are_not_in_the_checkpoint_is_found_by_the_guard_of_its_bucket():
    assert (2, ["e", 0]) in values(settled(resumed_without_timers()))


def test_while_one_guard_fires_another_is_set():
    engine, _ = engine_for(counting)
    engine.element("k", "e", 1)
    settled(engine)
    for _ in range(5):
        guards = sorted(ms for ms, key in engine.timers["processing"] if key == bucket_of(b"k"))
        engine.advance(guards[0] - engine.now_ms)
        assert guards[1] > engine.now_ms
        assert guards[1] - guards[0] <= 20_000


def test_any_event_after_a_restart_wakes_the_keys_whose_timers_are_not_in_the_checkpoint():
    agent, go = gated()
    engine, _ = engine_for(agent)
    engine.element("k", "e", 1)
    again = restored(engine, {"event": set(), "processing": set()})
    early = again.element("other", "e", 2)
    go.set()
    assert sorted(time_ms for time_ms, _ in values(early + settled(again))) == [1, 2]


def test_the_end_of_the_input_finds_an_event_whose_timers_are_not_in_the_checkpoint():
    assert (2, ["e", 0]) in values(resumed_without_timers().finish())


def test_a_restart_with_a_journal_asks_no_question_twice(tmp_path):
    engine, model = engine_for(counting, journal=f"sqlite:///{tmp_path}/journal.db")
    engine.element("k", "e0", 1)
    before = restored(engine)
    settled(engine)
    assert values(settled(before)) == [(1, ["e0", 0, 1, "answer"])]
    assert model.call_count == 1


def test_the_end_of_the_input_waits_for_everything():
    engine, _ = engine_for(counting, max_in_flight=2)
    early = [one for n in range(40) for one in engine.element(f"k{n % 20}", n, n)]
    outputs = values(early + engine.finish())
    assert sorted(time_ms for time_ms, _ in outputs) == list(range(40))
    assert {(time_ms, told[0]) for time_ms, told in outputs} == {(n, n) for n in range(40)}


def test_a_failed_activation_becomes_a_dead_letter_and_keeps_the_position():
    async def failing(ctx, event):
        if event == "bad":
            raise ValueError("no")
        return ctx.seq

    engine, _ = engine_for(failing)
    outputs = engine.element("k", "bad", 1) + engine.element("k", "good", 2) + settled(engine)
    (letter,) = letters_of(outputs)
    assert (letter.entity_key, letter.seq, letter.event, letter.error_type) == (b"k", 0, "bad", "ValueError")
    assert values(outputs) == [(2, 1)]
    assert (engine.counters["activations_failed"], engine.counters["dead_letters_ValueError"]) == (1, 1)


def test_an_output_of_another_type_becomes_a_dead_letter():
    async def odd(ctx, event):
        ctx.state = 1
        return object()

    engine, _ = engine_for(odd)
    outputs = engine.element("k", "e", 1) + settled(engine)
    (letter,) = letters_of(outputs)
    assert (letter.error_type, letter.event) == ("TypeError", "e")
    assert idle(engine)[b"k"].agent_state == b""


def test_on_error_raise_fails_the_job():
    async def failing(ctx, event):
        raise ValueError("no")

    engine, _ = engine_for(failing, on_error="raise")
    with pytest.raises(RuntimeError, match=r"key b'k' seq 0 failed with ValueError: no; on_error='raise'"):
        assert not engine.element("k", "e", 1) + settled(engine)


def test_a_journal_that_cannot_be_opened_fails_the_job_and_makes_no_dead_letter(tmp_path):
    engine, _ = engine_for(counting, journal=f"sqlite:///{tmp_path}/no/such/folder/journal.db")
    with pytest.raises(JournalOpenError):
        assert not engine.element("k", "e", 1) + settled(engine)


def test_an_event_without_its_position_is_a_dead_letter_and_the_next_goes_on():
    async def position(ctx, event):
        return ctx.seq

    engine, _ = engine_for(position, sequence=lambda event: event["id"])
    outputs = engine.element("k", {}, 1) + engine.element("k", {"id": 7}, 2) + settled(engine)
    (letter,) = letters_of(outputs)
    assert (letter.seq, letter.event, letter.error_type) == (0, {}, "KeyError")
    assert values(outputs) == [(2, 7)]


def test_events_without_a_time_stay_without_one():
    engine, _ = engine_for(counting)
    outputs = engine.element("k", "e", NO_TIME_MS) + settled(engine)
    assert [time_ms for time_ms, _ in values(outputs)] == [NO_TIME_MS]


def test_a_position_from_the_event_is_answered_from_committed_state():
    async def asking(ctx, event):
        return [ctx.seq, (await ctx.complete("the same")).cache_hit]

    engine, model = engine_for(asking, sequence=lambda event: event)
    outputs = engine.element("k", 7, 1) + settled(engine) + engine.element("k", 7, 2) + settled(engine)
    assert [told for _, told in values(outputs)] == [[7, False], [7, True]]
    assert model.call_count == 1


def test_a_key_that_waits_long_costs_few_timers():
    go = threading.Event()

    async def waiting(ctx, event):
        await asyncio.to_thread(go.wait, 10)

    engine, _ = engine_for(waiting)
    engine.element("k", "e", 1)
    for _ in range(600):
        engine.advance(100)
    fired = engine.fired[bucket_of(b"k")]
    go.set()
    settled(engine)
    assert fired <= 80
