"""The order in which a call touches the world, and what is kept when a later step fails."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, field_validator

from beam_agents.errors import BudgetExceeded, OutputSchemaError, ResponseDecodeError, ServerError
from beam_agents.model import ReplayCache, RetryPolicy, TokenBudget, TokenUsage
from beam_agents.testing import RecordingSink
from tests.model.conftest import KEY, Bench, answer, ask, decode
from tests.model.parts import NoteJournal, ScriptedLLM
from tests.model.test_spec_scenarios import key_of, serving, trip

GOOD = answer('{"label": "spam"}', 10, 5)
BAD = answer('{"label": 5}', 10, 5)


class Label(BaseModel):
    label: str


class Notes(list):
    """Facades' parts that write their names down when they are used."""

    def cache(self, bench: Bench) -> ReplayCache:
        notes = self

        class Cache(ReplayCache):
            def get(self, key):
                notes.append("look in the cache")
                return super().get(key)

            def put(self, key, response, **more):
                notes.append("store in the cache")
                super().put(key, response, **more)

        return Cache(now_ms=bench.clock)

    def sink(self) -> RecordingSink:
        notes = self

        class Sink(RecordingSink):
            def accumulate_usage(self, usage):
                notes.append("account")
                super().accumulate_usage(usage)

            def stage_trace_event(self, event):
                notes.append("trace")
                super().stage_trace_event(event)

        return Sink()

    def budget(self, limit: int) -> TokenBudget:
        notes = self

        class Budget(TokenBudget):
            def charge(self, tokens):
                if tokens:
                    notes.append("charge the budget")
                super().charge(tokens)

        return Budget(limit)

    def decode(self, response: bytes):
        self.append("decode")
        return decode(response)

    def journal(self) -> NoteJournal:
        return NoteJournal(on_operation=lambda operation: self.append(f"journal: {operation}"))

    def llm(self, *outcomes) -> ScriptedLLM:
        notes = self

        class Noting(ScriptedLLM):
            async def complete(self, request):
                notes.append("send")
                return await super().complete(request)

        return Noting(*outcomes)


async def call(notes: Notes, *outcomes: bytes, limit: int = 1_000, schema: type[BaseModel] | None = Label) -> Bench:
    bench = Bench(notes.llm(*outcomes))
    bench.cache, bench.sink = notes.cache(bench), notes.sink()
    facade = bench.facade(decode=notes.decode, journal=notes.journal(), budget=notes.budget(limit))
    try:
        await facade.complete(ask(), entity_key=KEY, seq=0, output_schema=schema)
    except (BudgetExceeded, OutputSchemaError, ResponseDecodeError) as error:
        notes.append(type(error).__name__)
    return bench


BEFORE = ["look in the cache", "journal: find", "journal: begin", "send", "decode"]
AFTER = ["journal: record_answer", "store in the cache", "account", "charge the budget"]


async def test_decode_then_journal_then_cache_then_usage_then_budget_then_trace():
    notes = Notes()
    await call(notes, GOOD)
    assert notes == [*BEFORE, *AFTER, "trace"]


async def test_an_answer_that_violates_its_schema_is_stored_and_billed_first():
    notes = Notes()
    bench = await call(notes, BAD)
    assert notes == [*BEFORE, *AFTER, "trace", "OutputSchemaError"]
    assert bench.sink.billed == TokenUsage(10, 5, 15)


async def test_an_answer_that_exceeds_the_budget_is_stored_and_billed_first_and_wins_over_its_schema():
    notes = Notes()
    await call(notes, BAD, limit=3)
    assert notes == [*BEFORE, *AFTER, "trace", "BudgetExceeded"]


async def test_bytes_that_do_not_decode_are_stored_nowhere():
    notes = Notes()
    bench = await call(notes, b"{}")
    assert notes == [*BEFORE, "journal: record_failure", "trace", "ResponseDecodeError"]
    assert bench.sink.usages == []


async def test_a_hit_touches_neither_journal_nor_breaker_nor_provider_nor_account():
    notes = Notes()
    bench = await call(notes, GOOD)
    notes.clear()
    await trip(bench)
    facade = bench.facade(decode=notes.decode, journal=notes.journal(), budget=notes.budget(100))
    await facade.complete(ask(), entity_key=KEY, seq=0, output_schema=Label)
    assert notes == ["look in the cache", "decode", "charge the budget", "trace"]


async def test_a_journal_hit_asks_neither_breaker_nor_provider_and_is_stored_in_the_cache():
    notes, journal = Notes(), NoteJournal()
    first = Bench(serving(answer("x", 3, 4)))
    await first.facade(journal=journal).complete(ask(), entity_key=KEY, seq=0)
    bench = Bench(ScriptedLLM(AssertionError("asked")))
    bench.cache, bench.sink = notes.cache(bench), notes.sink()
    await trip(bench)
    facade = bench.facade(decode=notes.decode, journal=journal, budget=notes.budget(100))
    result = await facade.complete(ask(), entity_key=KEY, seq=0)
    assert (result.text, result.cache_hit, result.attempts) == ("x", True, 0)
    assert notes == ["look in the cache", "decode", "store in the cache", "charge the budget", "trace"]
    assert bench.attributes["beam_agents.replay"] == "journal"


async def test_a_bad_answer_is_paid_once_and_fails_alike_on_replay():
    bench = Bench(serving(BAD))
    errors = []
    for _ in range(3):
        with pytest.raises(OutputSchemaError) as caught:
            await bench.facade().complete(ask(), entity_key=KEY, seq=0, output_schema=Label)
        errors.append(caught.value)
    assert bench.llm.call_count == 1
    assert bench.sink.billed == TokenUsage(10, 5, 15)
    assert {(str(e), e.reason, e.text, e.usage) for e in errors} == {
        (str(errors[0]), "schema_violation", '{"label": 5}', TokenUsage(10, 5, 15))
    }
    assert [event.attributes["beam_agents.billed"] for event in bench.sink.trace_events] == ["true", "false", "false"]


async def test_an_answer_is_validated_once():
    judged = []

    class Judged(BaseModel):
        label: str

        @field_validator("label")
        @classmethod
        def note(cls, value):
            judged.append(value)
            return value

    result = await Bench(serving(GOOD)).facade().complete(ask(), entity_key=KEY, seq=0, output_schema=Judged)
    assert result.parsed == Judged.model_construct(label="spam")
    assert judged == ["spam"]


async def test_every_attempt_has_an_intent_of_its_own_before_it_is_sent():
    notes = Notes()
    bench = Bench(notes.llm(ServerError(500), ServerError(500), GOOD), policy=RetryPolicy(3, 0, 0))
    await bench.facade(journal=notes.journal()).complete(ask(), entity_key=KEY, seq=0)
    failed = ["journal: begin", "send", "journal: record_failure"]
    assert notes == ["journal: find", *failed, *failed, "journal: begin", "send", "journal: record_answer"]


async def test_a_stored_answer_is_found_under_the_key_of_the_effective_request():
    bench = Bench(serving(GOOD))
    await bench.facade().complete(ask(), entity_key=KEY, seq=0, output_schema=Label)
    sent = bench.llm.requests[0]
    assert bench.cache.get(key_of(sent)).response == GOOD
    assert bench.cache.get(key_of()) is None
