from __future__ import annotations

import asyncio
import json
import threading

import pytest

from beam_agents.activation import AgentConfig, Scope, resources_for
from beam_agents.activation.dead_letter import EncodedEvent
from beam_agents.activation.in_flight import Base, InFlight, Waiting
from beam_agents.testing import FakeLLM

KEY = b"k"


def decode(data):
    return json.loads(data)


def waiting(seq, event=None):
    return Waiting(seq, json.dumps(event if event is not None else {"n": seq}).encode())


def config(**given):
    return AgentConfig(provider=FakeLLM, decode=decode, **given)


def table(agent, **given):
    return InFlight(agent, resources_for(config(**given)), Scope("test"), decode)


async def counting(ctx, event):
    ctx.state = (ctx.state or 0) + 1
    return [ctx.seq, event["n"], ctx.state]


def test_a_keys_events_run_in_order_each_on_the_outcome_before_it():
    flights = table(counting)
    events = [waiting(seq) for seq in range(3)]
    assert flights.sync(KEY, Base(), events)
    outcomes = []
    for _ in events:
        outcomes.append(flights.await_head(KEY, 10).outputs)
        flights.committed(KEY)
    assert outcomes == [([0, 0, 1],), ([1, 1, 2],), ([2, 2, 3],)]
    assert len(flights) == 0


def test_syncing_again_starts_only_what_is_new():
    ran = []

    async def agent(ctx, event):
        ran.append(event["n"])

    flights = table(agent)
    flights.sync(KEY, Base(), [waiting(0)])
    flights.await_head(KEY, 10)
    flights.sync(KEY, Base(), [waiting(0), waiting(1)])
    flights.committed(KEY)
    flights.await_head(KEY, 10)
    assert ran == [0, 1]


@pytest.mark.parametrize(
    ("base", "event"),
    [(Base(b"7"), {"n": 0}), (Base(), {"n": 99})],
    ids=["another state", "another event"],
)
def test_flights_from_another_past_are_abandoned_and_started_again(base, event):
    flights = table(counting)
    flights.sync(KEY, Base(), [waiting(0), waiting(1)])
    flights.await_head(KEY, 10)
    flights.sync(KEY, base, [waiting(0, event)])
    state = int(base.state or 0) + 1
    assert flights.await_head(KEY, 10).outputs == ([0, event["n"], state],)


def test_what_is_committed_comes_back_until_a_later_step_has_read_it():
    ran = []

    async def agent(ctx, event):
        ran.append(event["n"])
        ctx.state = (ctx.state or 0) + 1

    flights = table(agent)
    proving = InFlight(agent, resources_for(config()), Scope("test"), decode, keep_committed=True)
    events = [waiting(seq) for seq in range(3)]
    for one in (flights, proving):
        one.sync(KEY, Base(), events)
        for _ in events:
            one.await_head(KEY, 10)
            one.committed(KEY)
    assert (len(flights), len(proving), proving.unproven) == (0, 1, {KEY})
    proving.read(KEY, Base(b"1", b"", 1))
    proving.sync(KEY, Base(b"1", b"", 1), events[1:])
    assert proving.head(KEY).position.seq == 1
    proving.committed(KEY)
    proving.committed(KEY)
    proving.read(KEY, Base(b"3", b"", 3))
    assert (len(proving), proving.unproven, ran) == (0, set(), [0, 1, 2] * 2)


def test_the_head_is_running_until_its_outcome_is_there():
    go = threading.Event()

    async def agent(ctx, event):
        await asyncio.to_thread(go.wait, 10)

    flights = table(agent)
    assert not flights.is_running(KEY)
    flights.sync(KEY, Base(), [waiting(0)])
    assert flights.is_running(KEY)
    assert flights.head(KEY) is None
    go.set()
    assert flights.await_head(KEY, 10).committed
    assert not flights.is_running(KEY)


def test_what_finds_no_room_is_left_out_and_goes_on_later():
    go = threading.Event()

    async def agent(ctx, event):
        await asyncio.to_thread(go.wait, 10)
        return event["n"]

    flights = table(agent, max_in_flight=1)
    events = [waiting(seq) for seq in range(100)]
    flights.sync(KEY, Base(), events)
    assert not flights.sync(b"other", Base(), [waiting(0)])
    assert flights.head(b"other") is None
    go.set()
    done = []
    while events:
        flights.sync(KEY, Base(), events, wait_s=10)
        done += flights.await_head(KEY, 10).outputs
        flights.committed(KEY)
        events.pop(0)
    assert done == list(range(100))
    assert flights.sync(b"other", Base(), [waiting(0)], wait_s=10)


def test_a_failed_activation_leaves_the_state_to_the_next():
    async def agent(ctx, event):
        ctx.state = (ctx.state or 0) + 1
        if event["n"] == 1:
            raise ValueError("no")
        return ctx.state

    flights = table(agent)
    flights.sync(KEY, Base(), [waiting(0), waiting(1), waiting(2)])
    outcomes = []
    for _ in range(3):
        outcomes.append(flights.await_head(KEY, 10))
        flights.committed(KEY)
    assert [one.outputs for one in outcomes] == [(1,), (), (2,)]
    assert outcomes[1].dead_letter.error_type == "ValueError"


def test_an_event_that_cannot_be_decoded_is_a_dead_letter_and_the_next_goes_on():
    flights = table(counting)
    flights.sync(KEY, Base(), [Waiting(0, b"not json"), waiting(1)])
    letter = flights.await_head(KEY, 10).dead_letter
    assert letter.error_type == "ValueError"
    assert letter.event == EncodedEvent("unknown", b"ot json")  # without the byte that says how it was encoded
    assert "an event of 8 bytes in keyed state cannot be read by this version: Expecting value" in letter.message
    flights.committed(KEY)
    assert flights.await_head(KEY, 10).committed
    flights.sync(b"other", Base(), [waiting(0)])
    assert flights.await_head(b"other", 10).committed
