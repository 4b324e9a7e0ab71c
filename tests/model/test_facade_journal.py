"""The facade and its journal: free retries, waiting for others, doubt, and stores that fail."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle

import pytest
from pydantic import BaseModel

from beam_agents.errors import (
    AnswerNotJournaledError,
    CircuitOpenError,
    ConnectionBroken,
    InDoubtError,
    JournalError,
    JournalOpenError,
    OutputSchemaError,
    ProviderRequestError,
    ServerError,
)
from beam_agents.journals import open_journal, reset_memory_journals
from beam_agents.model import CircuitState, RetryPolicy, TokenBudget, TokenUsage
from beam_agents.model.journaling import Journaling
from beam_agents.ports import CallIdentity, JournalFinding, PastAttempt
from tests.model.conftest import KEY, Bench, answer, ask
from tests.model.parts import GatedLLM, NoteJournal, ScriptedLLM, settle
from tests.model.test_spec_scenarios import key_of, serving, trip

DOWN = JournalError("the store is down")
_LONGEST_CALL_S = 10  # an intent that nobody ends is waited for without end; that is a failure, not a wait


@pytest.fixture(params=["double", "memory"])
async def journal(request):
    if request.param == "double":
        yield NoteJournal()
        return
    reset_memory_journals()
    opened = open_journal("memory://", now_ms=lambda: 1_000_000)
    yield opened
    await opened.aclose()
    reset_memory_journals()


async def call(bench: Bench, journal, text: str = "hi", **options):
    seq = options.pop("seq", 0)
    async with asyncio.timeout(_LONGEST_CALL_S):
        return await bench.facade(journal=journal, **options).complete(ask(text), entity_key=KEY, seq=seq)


def log_of(bench: Bench) -> list[tuple[str, str, str | None]]:
    logged = json.loads(bench.attributes["beam_agents.attempt_log"])
    return [(one["id"].rpartition(":")[2], one["outcome"], one.get("error")) for one in logged]


# Over both journals


async def test_the_retry_of_a_bundle_is_free(journal):
    await call(Bench(serving(answer("paid", 7, 3))), journal)
    bench = Bench(serving())
    result = await call(bench, journal)
    assert (result.text, result.cache_hit, result.attempts) == ("paid", True, 0)
    assert result.usage == TokenUsage(7, 3, 10)
    assert bench.llm.call_count == 0
    assert bench.sink.usages == []
    found = bench.attributes
    assert (found["beam_agents.replay"], found["beam_agents.billed"]) == ("journal", "false")
    assert found["beam_agents.attempt_id"] == f"{key_of()}:1"


async def test_an_answer_from_the_journal_serves_even_while_the_circuit_is_open(journal):
    await call(Bench(serving(answer("paid"))), journal)
    bench = Bench(serving())
    await trip(bench)
    assert (await call(bench, journal)).text == "paid"
    assert bench.breaker.state is CircuitState.OPEN


async def test_an_answer_from_the_journal_charges_the_budget_like_a_bought_one(journal):
    budgets = [TokenBudget(100), TokenBudget(100)]
    for budget in budgets:
        await call(Bench(serving(answer(prompt=7, completion=3))), journal, budget=budget)
    assert [budget.consumed for budget in budgets] == [10, 10]


class UnwritableLLM(ScriptedLLM):
    """A client that finds out what it cannot write before it sends."""

    async def prepare(self, request):
        raise ValueError("it cannot be written")

    async def complete(self, request):
        return await (await self.prepare(request))()


async def test_what_fails_before_the_request_leaves_is_neither_an_attempt_nor_an_intent(journal):
    bench = Bench(UnwritableLLM(answer()))
    with pytest.raises(ValueError, match="cannot be written"):
        await call(bench, journal)
    assert bench.attributes["beam_agents.attempts"] == "0"
    assert "beam_agents.attempt_log" not in bench.attributes
    assert bench.breaker.state is CircuitState.CLOSED
    mended = Bench(ScriptedLLM(answer()))
    await call(mended, journal)
    assert mended.attributes["beam_agents.attempt_id"] == f"{key_of()}:1"


async def test_scopes_and_positions_never_meet(journal):
    for scope, seq in (("a", 0), ("b", 0), ("a", 1), ("", 0)):
        bench = Bench(serving())
        result = await call(bench, journal, scope=scope, seq=seq)
        assert not result.cache_hit


async def test_ordinals_go_on_over_retries_and_processes(journal):
    first = Bench(ScriptedLLM(ServerError(500), ConnectionBroken(), ProviderRequestError(400)))
    with pytest.raises(ProviderRequestError):
        await call(first, journal)
    assert log_of(first) == [
        ("1", "failed", "ServerError"),
        ("2", "in_doubt", "ConnectionBroken"),
        ("3", "failed", "ProviderRequestError"),
    ]
    second = Bench(ScriptedLLM(ServerError(503), answer()))
    await call(second, journal)
    assert second.attributes["beam_agents.attempt_id"] == f"{key_of()}:5"
    assert second.attributes["beam_agents.attempts"] == "2"
    assert second.attributes["beam_agents.in_doubt"] == "1"
    assert log_of(second) == [*log_of(first), ("4", "failed", "ServerError"), ("5", "answered", None)]


async def test_a_recovered_answer_tells_of_the_requests_before_it(journal):
    await call(Bench(ScriptedLLM(ConnectionBroken(), answer())), journal)
    bench = Bench(serving())
    await call(bench, journal)
    assert log_of(bench) == [("1", "in_doubt", "ConnectionBroken"), ("2", "answered", None)]
    assert bench.attributes["beam_agents.attempts"] == "0"


async def test_two_activations_with_one_call_pay_once(journal):
    first, second = Bench(GatedLLM(answer("paid"))), Bench(serving())
    leader = asyncio.create_task(call(first, journal))
    await settle()
    waiter = asyncio.create_task(call(second, journal))
    await settle()
    assert not waiter.done()
    first.llm.gate.set()
    assert (await leader).attempts == 1
    result = await waiter
    assert (result.text, result.cache_hit, result.attempts) == ("paid", True, 0)
    assert second.llm.call_count == 0


async def test_a_cancelled_request_is_recorded_in_doubt_in_the_background(journal):
    bench = Bench(GatedLLM(answer()))
    task = asyncio.create_task(call(bench, journal))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    again = Bench(serving())
    await call(again, journal)
    assert log_of(again) == [("1", "in_doubt", "CancelledError"), ("2", "answered", None)]


async def test_undecodable_bytes_are_no_answer(journal):
    with pytest.raises(Exception, match="not the fake provider's wire"):
        await call(Bench(serving(b"{}")), journal)
    again = Bench(serving())
    assert not (await call(again, journal)).cache_hit
    assert log_of(again)[0] == ("1", "in_doubt", "ResponseDecodeError")


async def test_a_refused_call_leaves_no_intent(journal):
    bench = Bench(serving())
    await trip(bench)
    with pytest.raises(CircuitOpenError):
        await call(bench, journal)
    again = Bench(serving())
    await call(again, journal)
    assert again.attributes["beam_agents.attempt_id"].endswith(":1")


# In doubt


@pytest.mark.parametrize(("policy", "deferred"), [("fail", False), ("defer", True)])
async def test_a_lost_request_forbids_a_new_one_under_fail_and_defer(policy, deferred):
    bench, journal = Bench(serving()), NoteJournal()
    journal.lose(CallIdentity(key_of()), 2)
    with pytest.raises(InDoubtError) as caught:
        await call(bench, journal, on_in_doubt=policy)
    assert caught.value.attempt_ids == (f"{key_of()}:2",)
    assert caught.value.deferred is deferred
    assert bench.llm.call_count == 0
    assert bench.attributes["beam_agents.in_doubt"] == "1"


async def test_a_lost_request_is_paid_again_under_repay_and_said_so(caplog):
    bench, journal = Bench(serving()), NoteJournal()
    journal.lose(CallIdentity(key_of()))
    with caplog.at_level(logging.WARNING):
        await call(bench, journal)
    assert log_of(bench) == [("1", "in_doubt", "Lost"), ("2", "answered", None)]
    assert f'call_in_doubt request={key_of()}:1 cause="its process ended" then=repay' in caplog.text


@pytest.mark.parametrize("policy", ["fail", "defer"])
async def test_a_request_that_only_failed_forbids_nothing(policy):
    journal = NoteJournal()
    with pytest.raises(ConnectionBroken):
        await call(Bench(ScriptedLLM(ConnectionBroken()), policy=RetryPolicy(1, 0, 0)), journal)
    assert (await call(Bench(serving()), journal, on_in_doubt=policy)).attempts == 1


async def test_an_answer_that_came_after_all_outweighs_a_lost_request():
    journal = NoteJournal()
    await call(Bench(serving()), journal)
    journal.lose(CallIdentity(key_of()), 2)
    assert (await call(Bench(serving()), journal, on_in_doubt="fail")).cache_hit


# Others at work


async def test_a_live_owner_is_waited_for_with_growing_pauses_no_longer_than_its_lease():
    bench = Bench(serving())
    busy = [JournalFinding(busy_for_ms=left) for left in (900, 900, 900, 900, 900, 900, 900, 7, 0.2)]
    await call(bench, NoteJournal(busy=busy))
    assert bench.sleep.delays == [20, 40, 80, 160, 320, 500, 500, 7, 1]


async def test_a_live_owner_that_is_still_at_work_at_the_deadline_is_an_error():
    bench = Bench(serving())
    journal = NoteJournal(busy=[JournalFinding(busy_for_ms=10_000)] * 100)
    with pytest.raises(JournalError, match="still waiting for this answer at the deadline"):
        await call(bench, journal, deadline_ms=bench.clock() + 1_000)
    assert bench.clock() <= 1_001_000
    assert bench.llm.call_count == 0


async def test_another_s_answer_that_comes_between_look_and_intent_is_taken():
    journal = NoteJournal()
    await call(Bench(serving(answer("theirs"))), journal)
    journal.busy = [JournalFinding()]
    bench = Bench(serving())
    result = await call(bench, journal)
    assert (result.text, result.cache_hit) == ("theirs", True)
    assert journal.notes[-3:] == ["find", "begin", "find"]
    assert bench.llm.call_count == 0


async def test_an_answer_that_came_second_gives_way_to_the_one_that_stands_and_stays_in_the_account():
    paused, journal = Bench(GatedLLM(answer("late", 7, 3))), NoteJournal()
    waking = asyncio.create_task(call(paused, journal))
    await settle()
    journal.open.clear()
    journal.lose(CallIdentity(key_of()))
    await call(Bench(serving(answer("first"))), journal)
    paused.llm.gate.set()
    result = await waking
    assert (result.text, result.cache_hit) == ("first", True)
    found = paused.attributes
    assert (found["beam_agents.attempt_id"], found["beam_agents.billed"]) == (f"{key_of()}:2", "false")
    late = {"id": f"{key_of()}:1", "outcome": "answered", "input_tokens": 7, "output_tokens": 3}
    assert late in json.loads(found["beam_agents.attempt_log"])
    assert paused.sink.usages == []


@pytest.mark.parametrize("policy", ["fail", "defer"])
async def test_a_request_lost_between_look_and_intent_forbids_a_new_one_too(policy):
    bench, journal = Bench(serving()), NoteJournal()
    journal.on_operation = lambda operation: journal.lose(CallIdentity(key_of())) if operation == "begin" else None
    with pytest.raises(InDoubtError) as caught:
        await call(bench, journal, on_in_doubt=policy)
    assert caught.value.attempt_ids == (f"{key_of()}:1",)
    assert bench.llm.call_count == 0
    assert log_of(bench) == [("1", "in_doubt", "Lost"), ("2", "failed", "Withdrawn")]
    assert journal.open == {}


async def test_a_request_lost_while_this_call_backs_off_forbids_a_new_one_too():
    bench, journal = Bench(ScriptedLLM(ServerError(500), answer())), NoteJournal()

    def interfere(operation: str) -> None:
        if operation == "begin" and journal.notes.count("begin") == 2:
            journal.lose(CallIdentity(key_of()), 2)

    journal.on_operation = interfere
    with pytest.raises(InDoubtError):
        await call(bench, journal, on_in_doubt="fail")
    assert len(bench.llm.requests) == 1


async def test_a_request_lost_between_look_and_intent_is_counted_under_repay():
    bench, journal = Bench(serving()), NoteJournal()

    def interfere(operation: str) -> None:
        if operation == "begin" and journal.notes.count("begin") == 1:
            journal.lose(CallIdentity(key_of()))

    journal.on_operation = interfere
    assert (await call(bench, journal)).attempts == 1
    assert bench.attributes["beam_agents.in_doubt"] == "1"
    assert log_of(bench)[-1] == ("3", "answered", None)


async def test_a_trial_that_finds_another_s_answer_gives_its_place_back():
    journal = NoteJournal()
    await call(Bench(serving()), journal)
    journal.busy = [JournalFinding()]
    bench = Bench(serving(), cooldown_ms=0)
    await trip(bench)
    assert (await call(bench, journal)).cache_hit
    assert bench.breaker.state is CircuitState.OPEN


async def test_a_refusal_after_waiting_for_another_still_raises_this_call_s_own_error():
    error = ServerError(500)
    bench, journal = Bench(ScriptedLLM(error), policy=RetryPolicy(5, 10, 10)), NoteJournal()

    def interfere(operation: str) -> None:
        if operation == "begin" and journal.notes.count("begin") == 2:
            journal.open["", key_of()] = 2
        if operation == "find" and journal.notes.count("find") == 2:
            journal.open.clear()
            for _ in range(bench.threshold):
                bench.breaker.record_failure(bench.clock())

    journal.on_operation = interfere
    with pytest.raises(ServerError) as caught:
        await call(bench, journal)
    assert caught.value is error
    assert journal.notes.count("begin") == 2
    assert len(bench.llm.requests) == 1


# Stores that fail


@pytest.mark.parametrize("operation", ["find", "begin"])
async def test_without_a_durable_intent_nothing_is_sent(operation):
    bench = Bench(serving())
    with pytest.raises(JournalError, match="down"):
        await call(bench, NoteJournal(faults={operation: [DOWN]}))
    assert bench.llm.call_count == 0
    assert bench.breaker.state is CircuitState.CLOSED


@pytest.mark.parametrize("operation", ["find", "begin", "record_answer"])
async def test_a_store_that_recovers_before_the_deadline_is_waited_for(operation):
    bench, journal = Bench(serving()), NoteJournal(faults={operation: [DOWN] * 7})
    result = await call(bench, journal, deadline_ms=bench.clock() + 60_000)
    assert result.attempts == 1
    assert bench.sleep.delays == [20, 40, 80, 160, 320, 500, 500]
    assert journal.notes.count(operation) == 8
    assert bench.llm.call_count == 1


async def test_a_store_that_stays_down_is_waited_for_until_the_deadline_and_no_longer():
    bench = Bench(serving())
    with pytest.raises(JournalError, match="down"):
        await call(bench, NoteJournal(faults={"begin": [DOWN] * 1_000}), deadline_ms=bench.clock() + 3_000)
    assert 2_500 < bench.clock() - 1_000_000 <= 3_000
    assert bench.llm.call_count == 0


async def test_a_journal_that_cannot_be_opened_is_not_waited_for():
    bench = Bench(serving())
    with pytest.raises(JournalOpenError):
        await call(bench, NoteJournal(faults={"find": [JournalOpenError("newer")]}), deadline_ms=bench.clock() + 60_000)
    assert bench.sleep.delays == []


async def test_without_a_durable_answer_the_agent_does_not_see_it_but_the_error_carries_it():
    bench = Bench(serving(answer("paid", 7, 3)))
    journal = NoteJournal(faults={"record_answer": [DOWN] * 4})
    with pytest.raises(AnswerNotJournaledError) as caught:
        await call(bench, journal, deadline_ms=bench.clock() + 100)
    error = caught.value
    assert (error.response, error.usage) == (answer("paid", 7, 3), TokenUsage(7, 3, 10))
    assert error.attempt_id == f"{key_of()}:1"
    assert "paid" not in str(error).replace("was paid", "")
    assert pickle.loads(pickle.dumps(error)).response == error.response
    assert bench.cache.get(key_of()) is None
    assert bench.sink.usages == []
    assert bench.attributes["beam_agents.billed"] == "true"
    await settle()
    again = Bench(serving())
    assert (await call(again, journal)).text == "paid"
    assert again.llm.call_count == 0


async def test_an_unlisted_fault_of_the_journal_s_own_propagates_and_the_answer_is_still_written():
    bench, journal = Bench(serving(answer("paid"))), NoteJournal(faults={"record_answer": [RuntimeError("a bug")]})
    with pytest.raises(RuntimeError):
        await call(bench, journal)
    await settle()
    assert (await call(Bench(serving()), journal)).text == "paid"


async def test_a_call_cancelled_while_its_answer_is_written_still_leaves_it_in_the_journal():
    bench, written = Bench(serving(answer("paid"))), asyncio.Event()
    journal = NoteJournal(on_operation=lambda operation: written.set() if operation == "record_answer" else None)
    task = asyncio.create_task(call(bench, journal))
    await written.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    assert (await call(Bench(serving()), journal)).text == "paid"


async def test_no_new_request_before_the_failure_of_the_last_is_durable():
    bench, journal = Bench(ScriptedLLM(ServerError(500), answer())), NoteJournal(faults={"record_failure": [DOWN] * 2})
    result = await call(bench, journal, deadline_ms=bench.clock() + 60_000)
    assert result.attempts == 2
    assert journal.notes == ["find", "begin", *["record_failure"] * 3, "begin", "record_answer"]


async def test_a_failure_that_cannot_be_made_durable_is_a_journal_error_and_is_written_in_the_background():
    bench, journal = Bench(ScriptedLLM(ServerError(500))), NoteJournal(faults={"record_failure": [DOWN] * 2})
    with pytest.raises(JournalError, match="down") as caught:
        await call(bench, journal)
    assert isinstance(caught.value.__context__, ServerError)
    assert len(bench.llm.requests) == 1
    assert log_of(bench) == [("1", "failed", "ServerError")]
    await settle()
    again = Bench(serving())
    await call(again, journal)
    assert log_of(again)[0] == ("1", "failed", "ServerError")


async def test_a_cancelled_request_is_recorded_even_where_the_store_is_down_for_a_while(caplog):
    bench, journal = Bench(GatedLLM(answer())), NoteJournal(faults={"record_failure": [DOWN] * 5})
    task = asyncio.create_task(call(bench, journal))
    await settle()
    task.cancel()
    with caplog.at_level(logging.WARNING), pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(10):
        await settle()
    assert journal.notes.count("record_failure") == 6
    assert journal.past["", key_of()][1].error_type == "CancelledError"
    assert 'then="record the outcome of a request later"' in caplog.text


async def test_a_store_that_never_comes_back_is_given_up_in_the_end():
    bench, journal = Bench(serving()), NoteJournal(faults={"record_answer": [DOWN] * 5_000})
    with pytest.raises(AnswerNotJournaledError):
        await call(bench, journal)
    for _ in range(500):
        await settle()
    assert journal.notes.count("record_answer") == 1_001


async def test_a_cancelled_failure_write_is_finished_in_the_background():
    bench, writing = Bench(ScriptedLLM(ServerError(500))), asyncio.Event()
    journal = NoteJournal(on_operation=lambda operation: writing.set() if operation == "record_failure" else None)
    task = asyncio.create_task(call(bench, journal))
    await writing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    assert journal.past["", key_of()][1].outcome == "failed"
    assert journal.open == {}


async def test_usage_is_journaled_with_the_answer():
    journal = NoteJournal()
    await call(Bench(serving(answer(prompt=7, completion=3))), journal)
    assert journal.usages == [TokenUsage(7, 3, 10)]


async def test_a_bad_answer_is_recovered_like_a_good_one():
    class Label(BaseModel):
        label: str

    journal = NoteJournal()
    for bench, calls in ((Bench(serving(answer("no"))), 1), (Bench(serving()), 0)):
        with pytest.raises(OutputSchemaError) as caught:
            await bench.facade(journal=journal).complete(ask(), entity_key=KEY, seq=0, output_schema=Label)
        assert (caught.value.text, bench.llm.call_count) == ("no", calls)


async def test_looking_up_a_step_obeys_the_policy_too():
    journal, step = NoteJournal(), CallIdentity("a step")
    bench = Bench()
    forbidding = Journaling(journal, bench.clock, bench.sleep, None, "fail")
    assert (await forbidding.look_up(step)).answer is None
    journal.lose(step)
    with pytest.raises(InDoubtError):
        await forbidding.look_up(step)
    paying = Journaling(journal, bench.clock, bench.sleep, None, "repay")
    assert (await paying.look_up(step)).past[0].lost


async def cancelled_while_beginning(bench: Bench, journal: NoteJournal) -> None:
    beginning = asyncio.Event()
    journal.on_operation = lambda operation: beginning.set() if operation == "begin" else None
    task = asyncio.create_task(call(bench, journal))
    await beginning.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()


async def test_a_call_cancelled_while_its_intent_is_written_leaves_none():
    bench, journal = Bench(serving()), NoteJournal()
    await cancelled_while_beginning(bench, journal)
    assert journal.open == {}
    assert bench.llm.call_count == 0
    assert (await call(Bench(serving()), journal)).attempts == 1


async def test_a_call_cancelled_while_its_intent_cannot_be_written_has_nothing_to_give_back():
    bench, journal = Bench(serving()), NoteJournal(faults={"begin": [DOWN]})
    await cancelled_while_beginning(bench, journal)
    assert journal.notes == ["find", "begin"]
    assert journal.open == {}


async def test_a_call_cancelled_while_another_s_answer_comes_has_nothing_to_give_back():
    journal = NoteJournal()
    await call(Bench(serving()), journal)
    journal.busy = [JournalFinding()]
    journal.notes.clear()
    await cancelled_while_beginning(Bench(serving()), journal)
    assert "record_failure" not in journal.notes


async def test_a_damaged_answer_in_the_journal_is_a_miss_that_the_trace_tells():
    journal = NoteJournal()
    bench = Bench(serving())
    journal.past["", key_of()][1] = PastAttempt(1, "answered", "Corrupt")
    result = await bench.facade(journal=journal).complete(ask(), entity_key=KEY, seq=0)
    assert (result.cache_hit, result.attempts) == (False, 1)
    assert bench.attributes["beam_agents.replay"] == "corrupt"
    assert bench.attributes["beam_agents.attempt_id"] == f"{key_of()}:2"
