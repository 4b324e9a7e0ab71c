"""Stored, shared, damaged and unreadable answers, and samples."""

from __future__ import annotations

import asyncio

import pytest

from beam_agents.errors import ResponseDecodeError, ServerError
from beam_agents.model import ReplayCache, TokenUsage
from beam_agents.proto import LlmCacheBlob
from tests.model.conftest import KEY, Bench, answer, ask
from tests.model.parts import GatedLLM, NoteJournal, ScriptedLLM, settle
from tests.model.test_spec_scenarios import key_of, serving

BIG = answer("x" * 200_000)
BIGGER = answer("y" * 200_000)


def damage(cache: ReplayCache, clock) -> ReplayCache:
    stored = LlmCacheBlob.FromString(cache.to_blob())
    stored.entries[0].response = stored.entries[0].response[:-1] + b"?"
    return ReplayCache(stored.SerializeToString(), now_ms=clock)


# Damage


async def test_a_damaged_answer_is_bought_again_and_the_trace_says_corrupt():
    bench = Bench(serving(answer("new")))
    bench.cache.put(key_of(), answer("old"))
    bench.cache = damage(bench.cache, bench.clock)
    result = await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert (result.text, result.cache_hit, result.attempts) == ("new", False, 1)
    assert bench.attributes["beam_agents.replay"] == "corrupt"
    assert bench.attributes["beam_agents.billed"] == "true"
    assert bench.cache.get(key_of()).response == answer("new")


async def test_the_request_after_a_damaged_answer_has_an_id_of_its_own():
    bench = Bench(serving())
    bench.cache.put(key_of(), answer("old"), attempt_ordinal=2)
    bench.cache = damage(bench.cache, bench.clock)
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.attributes["beam_agents.attempt_id"] == f"{key_of()}:3"


async def test_intact_bytes_that_no_longer_decode_buy_nothing():
    bench = Bench(serving())
    bench.cache.put(key_of(), b"of an older wire", attempt_ordinal=1)
    for _ in range(2):
        with pytest.raises(ResponseDecodeError):
            await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.call_count == 0
    assert len(bench.cache) == 1
    found = bench.sink.trace_events[0].attributes
    assert (found["error.type"], found["beam_agents.billed"]) == ("ResponseDecodeError", "false")
    assert (found["beam_agents.replay"], found["beam_agents.attempt_id"]) == ("cache", f"{key_of()}:1")


async def test_journaled_bytes_that_no_longer_decode_buy_nothing():
    bench, journal = Bench(serving()), NoteJournal()
    await bench.facade(journal=journal).complete(ask(), entity_key=KEY, seq=0)

    def refuse(response):
        raise ResponseDecodeError("a decoder of another version")

    again = Bench(serving())
    with pytest.raises(ResponseDecodeError):
        await again.facade(journal=journal, decode=refuse).complete(ask(), entity_key=KEY, seq=0)
    assert again.llm.call_count == 0
    assert again.attributes["beam_agents.replay"] == "journal"


# By digest only


async def test_an_answer_kept_by_digest_is_a_miss_that_is_bought_again():
    bench = Bench(serving(BIG))
    for _ in range(2):
        result = await bench.facade().complete(ask(), entity_key=KEY, seq=0)
        assert (result.cache_hit, result.attempts, len(result.text)) == (False, 1, 200_000)
    assert bench.llm.call_count == 2
    assert [event.attributes.get("beam_agents.replay") for event in bench.sink.trace_events] == [None, None]


async def test_a_new_answer_that_differs_from_the_kept_digest_is_traced_as_diverged():
    bench = Bench(ScriptedLLM(BIG, BIGGER))
    for _ in range(2):
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    found = bench.sink.trace_events[1].attributes
    assert (found["beam_agents.replay"], found["beam_agents.cache_hit"]) == ("diverged", "false")
    assert found["beam_agents.billed"] == "true"


async def test_requests_for_an_answer_kept_by_digest_go_on_counting_over_activations():
    bench = Bench(serving(BIG))
    for _ in range(3):
        await bench.facade().complete(ask(), entity_key=KEY, seq=0)
        bench.cache = ReplayCache(bench.cache.to_blob(), now_ms=bench.clock)
    ids = [event.attributes["beam_agents.attempt_id"] for event in bench.sink.trace_events]
    assert ids == [f"{key_of()}:{n}" for n in (1, 2, 3)]


async def test_a_big_answer_comes_whole_from_the_journal_and_is_no_divergence():
    journal = NoteJournal()
    bench = Bench(serving(BIG))
    bench.cache.put(key_of(), BIGGER)
    bench.sink.trace_events.clear()
    await Bench(serving(BIG)).facade(journal=journal).complete(ask(), entity_key=KEY, seq=0)
    result = await bench.facade(journal=journal).complete(ask(), entity_key=KEY, seq=0)
    assert (result.response.response, result.cache_hit) == (BIG, True)
    assert bench.llm.call_count == 0
    assert bench.attributes["beam_agents.replay"] == "journal"


# Shared


def start(facade, count: int, **options) -> list[asyncio.Task]:
    return [asyncio.create_task(facade.complete(ask(), entity_key=KEY, seq=0, **options)) for _ in range(count)]


@pytest.mark.parametrize("payload", [answer(), BIG], ids=["small", "kept by digest"])
async def test_equal_calls_in_flight_share_one_request(payload):
    bench = Bench(GatedLLM(payload))
    tasks = start(bench.facade(), 5)
    await settle()
    bench.llm.gate.set()
    results = await asyncio.gather(*tasks)
    assert len(bench.llm.requests) == 1
    assert [(result.cache_hit, result.attempts) for result in results] == [(False, 1)] + [(True, 0)] * 4
    assert {result.response.response for result in results} == {payload}
    assert bench.sink.billed == TokenUsage(10, 5, 15)
    events = [event.attributes for event in bench.sink.trace_events]
    assert len(events) == 5
    assert sorted(event.get("beam_agents.replay", "") for event in events) == ["", *["flight"] * 4]
    assert [event["beam_agents.billed"] for event in events].count("true") == 1
    assert {event["beam_agents.attempt_id"] for event in events} == {f"{key_of()}:1"}
    assert {event["gen_ai.usage.input_tokens"] for event in events} == {"10"}


async def test_calls_that_differ_share_nothing():
    bench = Bench(serving())
    facade = bench.facade()
    await asyncio.gather(
        facade.complete(ask(), entity_key=KEY, seq=0),
        facade.complete(ask(), entity_key=KEY, seq=1),
        facade.complete(ask(), entity_key=b"other", seq=0),
        facade.complete(ask("other"), entity_key=KEY, seq=0),
        facade.complete(ask(), entity_key=KEY, seq=0, sample=0),
    )
    assert bench.llm.call_count == 5


async def test_followers_get_the_leader_s_error_and_its_requests_are_counted_once():
    bench = Bench(GatedLLM(ServerError(500)))
    tasks = start(bench.facade(), 3)
    await settle()
    bench.llm.gate.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert len({id(error) for error in errors}) == 1
    assert len(bench.llm.requests) == 3
    events = [event.attributes for event in bench.sink.trace_events]
    assert [event["error.type"] for event in events] == ["ServerError"] * 3
    assert sorted(event["beam_agents.attempts"] for event in events) == ["0", "0", "3"]
    assert sum("beam_agents.attempt_log" in event for event in events) == 1


async def test_a_cancelled_leader_hands_its_call_over_and_its_request_stays_in_doubt():
    bench = Bench(GatedLLM(answer()))
    leader, follower = start(bench.facade(), 2)
    await settle()
    leader.cancel()
    await settle()
    bench.llm.gate.set()
    result = await follower
    assert (result.cache_hit, result.attempts) == (False, 1)
    assert len(bench.llm.requests) == 2
    events = [event.attributes for event in bench.sink.trace_events]
    assert [event["beam_agents.in_doubt"] for event in events] == ["1", "0"]
    assert events[1]["beam_agents.attempt_id"] == f"{key_of()}:2"


# Samples


async def test_samples_are_calls_of_their_own_and_leave_no_mark_on_the_wire():
    bench = Bench(serving())
    facade = bench.facade()
    for sample in (None, 0, 1, 0, None):
        await facade.complete(ask(temperature=1), entity_key=KEY, seq=0, sample=sample)
    assert bench.llm.call_count == 3
    assert {str(request.sampling_params) for request in bench.llm.requests} == {"{'temperature': 1}"}
    ids = [event.attributes["beam_agents.call_id"] for event in bench.sink.trace_events]
    assert (ids[1], ids[0]) == (ids[3], ids[4])
    assert ids[0] == key_of(ask(temperature=1))
    assert ids[1] == key_of(ask(temperature=1, **{"beam_agents.sample": 0}))


async def test_a_sample_of_a_request_without_parameters_sends_none():
    bench = Bench(serving())
    await bench.facade().complete(ask(), entity_key=KEY, seq=0, sample=3)
    assert bench.llm.requests[0].sampling_params is None
    assert bench.attributes["beam_agents.call_id"] == key_of(ask(**{"beam_agents.sample": 3}))
