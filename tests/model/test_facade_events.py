"""Exactly one LLM_CALL event, whatever way a call ends."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus

import pytest
from pydantic import BaseModel

from beam_agents.errors import (
    AnswerNotJournaledError,
    BudgetExceeded,
    CircuitOpenError,
    ConnectionBroken,
    EndpointUnreachable,
    InDoubtError,
    JournalError,
    OutputSchemaError,
    ProviderError,
    ProviderRequestError,
    ProviderTimeout,
    RateLimitError,
    ResponseDecodeError,
    SchemaNotExpressibleError,
    ServerError,
    UnreadableAnswer,
)
from beam_agents.model import LlmRequest, RetryPolicy, TokenBudget
from beam_agents.ports import CallIdentity
from beam_agents.proto import TraceEvent
from beam_agents.testing import FakeLLM, UnmatchedRequestError
from tests.model.conftest import KEY, Bench, answer, ask
from tests.model.parts import GatedLLM, NoteJournal, ScriptedLLM, settle
from tests.model.test_spec_scenarios import key_of, serving, trip


class Label(BaseModel):
    label: str


async def failing_call(bench: Bench, request: LlmRequest | None = None, **options) -> BaseException:
    schema = options.pop("output_schema", None)
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - which one is what the test asks
        await bench.facade(**options).complete(request or ask(), entity_key=KEY, seq=0, output_schema=schema)
    return caught.value


def told(bench: Bench) -> tuple[str, ...]:
    """error.type, attempts, billed, cache_hit and in_doubt of the one event."""
    found = bench.attributes
    assert bench.sink.trace_events[0].event_type == TraceEvent.LLM_CALL
    names = ("attempts", "billed", "cache_hit", "in_doubt")
    return (found.get("error.type", ""), *(found[f"beam_agents.{name}"] for name in names))


# By the endpoint


class WeirdStatus(Exception):
    status = object()


class NumberedStatus(Exception):
    status = HTTPStatus.IM_A_TEAPOT


PROVIDER_ERRORS = [
    (RateLimitError(), 3, 0),
    (ServerError(500), 3, 0),
    (ServerError(), 3, 3),
    (EndpointUnreachable(), 3, 0),
    (ConnectionBroken(), 3, 3),
    (UnreadableAnswer(), 3, 3),
    (ProviderTimeout(), 3, 3),
    (ProviderTimeout(status=408), 3, 0),
    (ProviderError("bare"), 1, 0),
    (ProviderRequestError(400), 1, 0),
    (SchemaNotExpressibleError("openai", "$", "too deep"), 1, 0),
    (ResponseDecodeError("x"), 1, 1),
    (KeyError("a bug"), 1, 1),
    (WeirdStatus(), 1, 1),
    (NumberedStatus(), 1, 1),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), 1, 1),
    (SystemExit(3), 1, 1),
]


@pytest.mark.parametrize(("error", "attempts", "in_doubt"), PROVIDER_ERRORS, ids=lambda value: type(value).__name__)
async def test_each_error_of_the_provider(error, attempts, in_doubt):
    bench = Bench(ScriptedLLM(error))
    assert await failing_call(bench) is error
    assert told(bench) == (type(error).__name__, str(attempts), "false", "false", str(in_doubt))
    assert len(bench.llm.requests) == attempts
    assert "beam_agents.schema_failure" not in bench.attributes
    logged = json.loads(bench.attributes["beam_agents.attempt_log"])
    assert [entry["id"] for entry in logged] == [f"{key_of()}:{n}" for n in range(1, attempts + 1)]
    assert {entry["outcome"] for entry in logged} == {"in_doubt" if in_doubt else "failed"}
    assert {entry["error"] for entry in logged} == {type(error).__name__}


async def test_a_status_is_logged_only_when_it_is_a_number():
    for error, expected in ((ServerError(503), 503), (NumberedStatus(), 418), (WeirdStatus(), None)):
        bench = Bench(ScriptedLLM(error), policy=RetryPolicy(1, 0, 0))
        await failing_call(bench)
        assert json.loads(bench.attributes["beam_agents.attempt_log"])[0].get("status") == expected


async def test_a_script_without_a_rule():
    bench = Bench(FakeLLM())
    assert isinstance(await failing_call(bench), UnmatchedRequestError)
    assert told(bench)[:2] == ("UnmatchedRequestError", "1")


# By the answer


async def test_success():
    bench = Bench(serving())
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert told(bench) == ("", "1", "true", "false", "0")
    assert bench.attributes["beam_agents.attempt_id"] == f"{key_of()}:1"
    assert "beam_agents.attempt_log" not in bench.attributes


async def test_a_hit():
    bench = Bench(serving())
    bench.cache.put(key_of(), answer(), attempt_ordinal=4)
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert told(bench) == ("", "0", "false", "true", "0")
    assert bench.attributes["beam_agents.replay"] == "cache"
    assert bench.attributes["beam_agents.attempt_id"] == f"{key_of()}:4"


async def test_a_hit_of_unknown_origin_names_no_attempt():
    bench = Bench(serving())
    bench.cache.put(key_of(), answer())
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert "beam_agents.attempt_id" not in bench.attributes


async def test_bytes_that_do_not_decode():
    bench = Bench(serving(b"<html>"))
    assert isinstance(await failing_call(bench), ResponseDecodeError)
    assert told(bench) == ("ResponseDecodeError", "1", "false", "false", "1")
    assert bench.cache.get(key_of()) is None


async def test_an_answer_that_violates_its_schema():
    bench = Bench(serving(answer('{"label": 5}', 8, 2)))
    assert isinstance(await failing_call(bench, output_schema=Label), OutputSchemaError)
    assert told(bench) == ("OutputSchemaError", "1", "true", "false", "0")
    found = bench.attributes
    assert found["beam_agents.schema_failure"] == "schema_violation"
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.output.type"]) == ("8", "json")


# By the facade itself


@pytest.mark.parametrize(
    ("request_", "raised"),
    [
        (LlmRequest("m-1", [{"content": {1, 2}}]), TypeError),
        (LlmRequest("m-1", [], sampling_params={"temperature": float("nan")}), ValueError),
        (LlmRequest("m-1", [{"content": "\ud83d"}]), ValueError),
        (LlmRequest(None, []), TypeError),
        (LlmRequest("m-1", [], sampling_params=7), TypeError),
    ],
)
async def test_a_request_that_cannot_be_serialized(request_, raised):
    bench = Bench(serving())
    assert isinstance(await failing_call(bench, request_, output_schema=Label), raised)
    assert told(bench) == (raised.__name__, "0", "false", "false", "0")
    assert "beam_agents.call_id" not in bench.attributes
    assert bench.llm.call_count == 0


async def test_a_model_name_that_utf_8_cannot_hold_is_still_traced():
    bench = Bench(serving())
    assert isinstance(await failing_call(bench, LlmRequest("m\ud83d", [])), ValueError)
    assert bench.attributes["gen_ai.request.model"] == "m?"


async def test_a_contradictory_response_format():
    bench = Bench(serving())
    error = await failing_call(bench, ask(response_format={"type": "json_object"}), output_schema=Label)
    assert isinstance(error, ValueError)
    assert told(bench) == ("ValueError", "0", "false", "false", "0")
    assert bench.attributes["gen_ai.output.type"] == "json"


async def test_a_schema_that_is_none():
    bench = Bench(serving())
    assert isinstance(await failing_call(bench, output_schema=dict), TypeError)
    assert told(bench) == ("TypeError", "0", "false", "false", "0")


async def test_a_refused_call():
    bench = Bench(serving())
    await trip(bench)
    assert isinstance(await failing_call(bench), CircuitOpenError)
    assert told(bench) == ("CircuitOpenError", "0", "false", "false", "0")
    assert bench.attributes["beam_agents.circuit_state"] == "open"
    assert bench.attributes["beam_agents.call_id"] == key_of()


async def test_a_budget_that_the_answer_exceeds():
    bench = Bench(serving(answer(prompt=90, completion=20)))
    assert isinstance(await failing_call(bench, budget=TokenBudget(100)), BudgetExceeded)
    assert told(bench) == ("BudgetExceeded", "1", "true", "false", "0")
    assert bench.attributes["gen_ai.usage.input_tokens"] == "90"


@pytest.mark.parametrize(
    ("policy", "lost", "faults", "raised", "attempts"),
    [
        ("fail", True, {}, InDoubtError, "0"),
        ("repay", False, {"find": [JournalError("down")]}, JournalError, "0"),
        ("repay", False, {"begin": [JournalError("down")]}, JournalError, "0"),
        ("repay", False, {"record_answer": [JournalError("down")]}, AnswerNotJournaledError, "1"),
    ],
)
async def test_a_journal_that_fails_or_forbids(policy, lost, faults, raised, attempts):
    bench, journal = Bench(serving()), NoteJournal(faults=faults)
    if lost:
        journal.lose(CallIdentity(key_of()))
    assert type(await failing_call(bench, journal=journal, on_in_doubt=policy)) is raised
    assert told(bench)[:2] == (raised.__name__, attempts)
    await settle()


# By cancellation


async def test_cancellation_during_the_call():
    bench = Bench(GatedLLM(answer()))
    task = asyncio.create_task(bench.facade().complete(ask(), entity_key=KEY, seq=0))
    await settle()
    assert bench.sink.trace_events == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told(bench) == ("CancelledError", "1", "false", "false", "1")


async def test_cancellation_during_the_backoff():
    bench, sleeping = Bench(ScriptedLLM(ServerError(500))), asyncio.Event()

    async def sleep(ms):
        sleeping.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(bench.facade(sleep=sleep).complete(ask(), entity_key=KEY, seq=0))
    await sleeping.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told(bench) == ("CancelledError", "1", "false", "false", "0")
    assert len(bench.llm.requests) == 1


async def test_cancellation_while_another_call_leads():
    bench = Bench(GatedLLM(answer()))
    facade = bench.facade()
    leader, follower = (asyncio.create_task(facade.complete(ask(), entity_key=KEY, seq=0)) for _ in range(2))
    await settle()
    follower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await follower
    assert told(bench) == ("CancelledError", "0", "false", "false", "0")
    bench.llm.gate.set()
    assert (await leader).attempts == 1
    assert len(bench.sink.trace_events) == 2


async def test_a_cancelled_call_takes_its_time_from_the_injected_clock():
    bench = Bench(GatedLLM(answer()))
    task = asyncio.create_task(bench.facade().complete(ask(), entity_key=KEY, seq=0))
    await settle()
    bench.clock.advance(750)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    event = bench.sink.trace_events[0]
    assert (event.start_ms, event.end_ms) == (1_000_000, 1_000_750)


# What each event says of its position


async def test_a_facade_counts_its_own_calls_unless_it_is_told():
    bench = Bench(serving())
    facade = bench.facade()
    for step in (None, None, 17, None):
        await facade.complete(ask(f"{step}"), entity_key=KEY, seq=5, step_index=step)
    assert [(event.step_index, event.seq) for event in bench.sink.trace_events] == [(0, 5), (1, 5), (17, 5), (3, 5)]


@pytest.mark.parametrize(
    ("wrong", "raised"),
    [
        ({"entity_key": "text"}, TypeError),
        ({"seq": 1.0}, TypeError),
        ({"seq": True}, TypeError),
        ({"seq": None}, TypeError),
        ({"seq": 2**63}, ValueError),
        ({"step_index": "1"}, TypeError),
        ({"step_index": -(2**63) - 1}, ValueError),
        ({"sample": 1.5}, TypeError),
    ],
)
async def test_a_position_that_no_event_could_carry_is_refused_at_once(wrong, raised):
    bench = Bench(serving())
    with pytest.raises(raised, match=f"{next(iter(wrong))} must"):
        await bench.facade().complete(ask(), **{"entity_key": KEY, "seq": 0, **wrong})
    assert bench.llm.call_count == 0


async def test_a_frozen_clock_may_be_a_plain_int():
    bench = Bench(serving())
    await bench.facade(now_ms=1_000_500).complete(ask(), entity_key=KEY, seq=0)
    event = bench.sink.trace_events[0]
    assert (event.start_ms, event.end_ms) == (1_000_500, 1_000_500)
