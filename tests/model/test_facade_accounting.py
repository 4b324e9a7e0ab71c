"""Usage, budget, and the log of every request."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from beam_agents.errors import (
    BudgetExceeded,
    ConnectionBroken,
    OutputSchemaError,
    RateLimitError,
    ResponseDecodeError,
    ServerError,
)
from beam_agents.model import DecodedResponse, TokenBudget, TokenUsage
from tests.model.conftest import KEY, Bench, answer, ask
from tests.model.parts import NoteJournal, ScriptedLLM
from tests.model.test_spec_scenarios import key_of, serving

USAGE_NAMES = ("input_tokens", "output_tokens", "cache_read.input_tokens", "reasoning.output_tokens")


def decoding(usage: TokenUsage | None, **more):
    return lambda response: DecodedResponse(usage=usage, text="x", **more)


def usage_of(bench: Bench) -> dict[str, str]:
    return {
        name: bench.attributes[f"gen_ai.usage.{name}"]
        for name in USAGE_NAMES
        if f"gen_ai.usage.{name}" in bench.attributes
    }


# Usage


@pytest.mark.parametrize(
    ("told", "known"),
    [
        (TokenUsage(12.0, 3.0, 15.0, 4.0), TokenUsage(12, 3, 15, 4)),
        (TokenUsage(12, 3, 15, -1, "2"), TokenUsage(12, 3, 15)),
        (TokenUsage(12, 3, None), None),
        (TokenUsage("12", "3", "15"), None),
        (TokenUsage(12, -3, 9), None),
        (TokenUsage(12, True, 13), None),
        (TokenUsage(12.5, 3, 15.5), None),
        (TokenUsage(float("nan"), 3, float("inf")), None),
        ({"prompt_tokens": 12}, None),
    ],
)
async def test_usage_that_cannot_be_counted_is_unknown_and_does_not_lose_the_answer(told, known):
    bench, journal = Bench(serving()), NoteJournal()
    result = await bench.facade(decode=decoding(told), journal=journal).complete(ask(), entity_key=KEY, seq=0)
    assert (result.text, result.usage) == ("x", known)
    assert [type(one.prompt_tokens) for one in bench.sink.usages] == ([] if known is None else [int])
    assert usage_of(bench).get("input_tokens") == (None if known is None else "12")
    assert "record_answer" in journal.notes


async def test_texts_of_other_types_are_told_as_text():
    bench = Bench(serving())
    decode = decoding(None, response_id=4711, response_model=1.5, finish_reason=0)
    decoded = (await bench.facade(decode=decode).complete(ask(), entity_key=KEY, seq=0)).decoded
    assert (decoded.response_id, decoded.response_model, decoded.finish_reason) == ("4711", "1.5", "0")
    assert bench.attributes["gen_ai.response.id"] == "4711"


async def test_a_decode_that_returns_something_else_is_told_and_its_request_is_on_the_journal():
    bench, journal = Bench(serving()), NoteJournal()
    with pytest.raises(ResponseDecodeError, match="must return a DecodedResponse, not dict"):
        await bench.facade(decode=json.loads, journal=journal).complete(ask(), entity_key=KEY, seq=0)
    assert "record_failure" in journal.notes


async def test_unknown_usage_stays_unknown_and_does_not_lose_the_answer():
    bench, budget = Bench(serving()), TokenBudget(0)
    result = await bench.facade(decode=decoding(None), budget=budget).complete(ask(), entity_key=KEY, seq=0)
    assert (result.usage, result.text) == (None, "x")
    assert bench.sink.usages == []
    assert usage_of(bench) == {}
    assert budget.consumed == 0
    assert bench.attributes["beam_agents.billed"] == "true"


async def test_a_real_zero_stays_a_zero():
    bench = Bench(serving())
    zero = TokenUsage(0, 0, 0, 0, 0)
    result = await bench.facade(decode=decoding(zero)).complete(ask(), entity_key=KEY, seq=0)
    assert result.usage == zero
    assert bench.sink.usages == [zero]
    assert usage_of(bench) == dict.fromkeys(USAGE_NAMES, "0")


async def test_details_that_are_known_are_traced_beside_the_totals():
    bench = Bench(serving())
    await bench.facade(decode=decoding(TokenUsage(10, 7, 17, 4, 3))).complete(ask(), entity_key=KEY, seq=0)
    assert list(usage_of(bench).values()) == ["10", "7", "4", "3"]


async def test_what_the_answer_says_of_itself_is_traced():
    bench = Bench(serving())
    decode = decoding(None, finish_reason="stop", response_model="m-1-2024\ud83d", response_id="r-7")
    await bench.facade(decode=decode).complete(ask(), entity_key=KEY, seq=0)
    found = bench.attributes
    assert found["gen_ai.response.finish_reasons"] == "stop"
    assert (found["gen_ai.response.model"], found["gen_ai.response.id"]) == ("m-1-2024?", "r-7")


async def test_an_answer_is_billed_once_whatever_its_retries():
    bench = Bench(ScriptedLLM(ServerError(500), ConnectionBroken(), answer(prompt=3, completion=4)))
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.sink.usages == [TokenUsage(3, 4, 7)]


# Budget


async def test_every_decoded_answer_charges_the_budget_hits_and_shared_ones_included():
    bench = Bench(serving(answer(prompt=10, completion=5)))
    for _ in range(2):
        budget = TokenBudget(1_000)
        facade = bench.facade(budget=budget)
        for _ in range(3):
            await facade.complete(ask(), entity_key=KEY, seq=0)
        assert budget.consumed == 45
    assert bench.llm.call_count == 1


async def test_the_answer_that_crosses_the_limit_is_stored_and_billed_and_a_replay_takes_the_same_path():
    bench = Bench(serving(answer(prompt=10, completion=5)))
    paths = []
    for _ in range(2):
        facade = bench.facade(budget=TokenBudget(29))
        path = []
        for text in ("one", "two", "three"):
            try:
                await facade.complete(ask(text), entity_key=KEY, seq=0)
                path.append("answered")
            except BudgetExceeded as error:
                path.append(f"{error.consumed} of {error.limit}")
        paths.append(path)
    assert paths == [["answered", "30 of 29", "30 of 29"]] * 2
    assert bench.llm.call_count == 2
    assert bench.sink.billed == TokenUsage(20, 10, 30)


async def test_a_tripped_budget_buys_nothing_more_and_is_traced():
    bench, budget = Bench(serving()), TokenBudget(0)
    with pytest.raises(BudgetExceeded):
        budget.charge(1)
    with pytest.raises(BudgetExceeded):
        await bench.facade(budget=budget).complete(ask(), entity_key=KEY, seq=0)
    assert bench.llm.call_count == 0
    assert bench.attributes["beam_agents.call_id"] == key_of()


async def test_an_invalid_answer_s_tokens_are_on_the_error_the_account_and_the_budget():
    class Label(BaseModel):
        label: str

    bench, budget = Bench(serving(answer("no", 7, 2))), TokenBudget(100)
    with pytest.raises(OutputSchemaError) as caught:
        await bench.facade(budget=budget).complete(ask(), entity_key=KEY, seq=0, output_schema=Label)
    assert caught.value.usage == TokenUsage(7, 2, 9) == bench.sink.billed
    assert budget.consumed == 9


# The log of requests


async def test_every_request_is_logged_with_its_id_outcome_and_wait():
    bench = Bench(ScriptedLLM(RateLimitError(1_000), ConnectionBroken(), answer()), seed=1)
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    found = bench.attributes
    assert (found["beam_agents.attempts"], found["beam_agents.in_doubt"]) == ("3", "1")
    assert found["beam_agents.attempt_id"] == f"{key_of()}:3"
    logged = json.loads(found["beam_agents.attempt_log"])
    assert [(one["id"][-2:], one["outcome"], one.get("error"), one.get("status")) for one in logged] == [
        (":1", "failed", "RateLimitError", 429),
        (":2", "in_doubt", "ConnectionBroken", None),
        (":3", "answered", None, None),
    ]
    waits = [one.get("waited_ms", 0) for one in logged]
    assert waits[:2] == [0, 1_000]
    assert waits[2] == round(sum(bench.sleep.delays))


async def test_ordinals_go_on_over_the_calls_of_one_facade():
    bench = Bench(ScriptedLLM(*[ServerError(500)] * 3, answer()))
    facade = bench.facade()
    with pytest.raises(ServerError):
        await facade.complete(ask(), entity_key=KEY, seq=0)
    await facade.complete(ask(), entity_key=KEY, seq=0)
    assert bench.sink.trace_events[1].attributes["beam_agents.attempt_id"] == f"{key_of()}:4"


# Who served


@pytest.mark.parametrize(
    ("endpoint", "address", "port"),
    [
        ("https://api.openai.com", "api.openai.com", "443"),
        ("http://127.0.0.1:8080", "127.0.0.1", "8080"),
        ("http://llm.local/v1", "llm.local", "80"),
        ("https://user:secret@llm.local:8443/v1", "llm.local", "8443"),
        ("http://[::1]:9000", "::1", "9000"),
        ("llm.local:9000", "llm.local", "9000"),
        ("llm.local", "llm.local", None),
        ("http://llm.local:port", None, None),
        ("http://[::1", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
async def test_the_endpoint_is_traced_without_its_credentials(endpoint, address, port):
    llm = ScriptedLLM(answer())
    llm.endpoint = endpoint
    bench = Bench(llm)
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    found = bench.attributes
    assert (found.get("server.address"), found.get("server.port")) == (address, port)
    assert "secret" not in str(found)


async def test_a_client_without_a_name_is_custom():
    bench = Bench(ScriptedLLM(answer()))
    await bench.facade().complete(ask(), entity_key=KEY, seq=0)
    assert bench.attributes["gen_ai.provider.name"] == "custom"
    named = Bench(serving())
    await named.facade().complete(ask(), entity_key=KEY, seq=0)
    assert named.attributes["gen_ai.provider.name"] == "fake"
