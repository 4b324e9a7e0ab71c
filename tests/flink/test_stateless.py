"""The functions behind `complete`, without Flink around them. Runs where PyFlink is installed."""

from __future__ import annotations

import asyncio
import json

import pytest

from beam_agents.activation import AgentConfig, DeadLetter, resources_for
from beam_agents.activation.completion import Completion
from beam_agents.errors import JournalOpenError
from beam_agents.flink.side_outputs import Tags
from beam_agents.flink.stateless import Ask, CountedParting
from beam_agents.proto import TraceEvent
from beam_agents.testing import FakeLLM, match_any, respond_with
from beam_agents.values import DecodedResponse, TokenUsage
from tests.flink.engine import Engine, Runtime


def decode(data):
    return DecodedResponse(TokenUsage(3, 4, 7), data.decode())


def asking(to_request=str, **given):
    model = FakeLLM([(match_any(), respond_with(b"answer"))])
    config = AgentConfig(provider=lambda: model, decode=decode, **given)
    return Ask(Completion(to_request, lambda element, result: f"{element}: {result.text}"), config), config


def letter_of(rows):
    (row,) = rows
    assert (row[0], row[2]) == (False, None)
    return DeadLetter.from_json(json.loads(row[3]))


def test_an_answer_comes_with_its_traces():
    ask, _ = asking()
    (row,) = asyncio.run(ask.async_invoke("one"))
    has_output, output, traces, letter = row
    assert (has_output, output, letter) == (True, "one: answer", None)
    kinds = [TraceEvent.FromString(data).event_type for data in traces]
    assert kinds == [TraceEvent.ACTIVATION, TraceEvent.LLM_CALL]


def test_an_element_that_cannot_be_asked_for_is_a_dead_letter():
    ask, _ = asking(lambda element: 7)
    assert letter_of(asyncio.run(ask.async_invoke("one"))).error_type == "TypeError"


def test_the_deadline_holds_inside_the_activation():
    async def never(ctx, element):
        await asyncio.Event().wait()

    config = AgentConfig(provider=FakeLLM, decode=decode, activation_timeout_s=0.05)
    letter = letter_of(asyncio.run(Ask(never, config).async_invoke("one")))
    assert (letter.event, letter.error_type) == ("one", "ActivationTimeout")


def test_waiting_for_a_slot_has_a_deadline_too_and_sends_nothing():
    ask, config = asking(max_in_flight=1, activation_timeout_s=0.05)
    resources = resources_for(config)
    resources.loop.run(resources.slots.__aenter__(), 10)
    letter = letter_of(asyncio.run(ask.async_invoke("one")))
    resources.loop.run(resources.slots.__aexit__(), 10)
    assert (letter.error_type, letter.attempts) == ("ActivationTimeout", 0)
    (row,) = asyncio.run(ask.async_invoke("one"))
    assert row[1] == "one: answer"


def test_flinks_own_timeout_gives_a_dead_letter_and_comes_after_both_deadlines():
    ask, config = asking(activation_timeout_s=30.0)
    assert ask.limit_ms > 2 * config.activation_timeout_s * 1000
    letter = letter_of(ask.timeout("one"))
    assert (letter.event, letter.error_type) == ("one", "ActivationTimeout")


def test_on_error_raise_fails_the_job():
    ask, _ = asking(lambda element: 7, on_error="raise")
    with pytest.raises(RuntimeError, match=r"failed with TypeError.*on_error='raise'"):
        asyncio.run(ask.async_invoke("one"))


def test_a_journal_that_cannot_be_opened_fails_the_job_and_makes_no_dead_letter(tmp_path):
    ask, _ = asking(journal=f"sqlite:///{tmp_path}/no/such/folder/journal.db")
    with pytest.raises(JournalOpenError):
        asyncio.run(ask.async_invoke("one"))


def test_outputs_are_parted_and_counted():
    good, config = asking()
    bad, _ = asking(lambda element: 7)
    tags = Tags.of_agents()
    split = CountedParting(tags, config)
    engine = Engine(split, None, None)
    split.open(Runtime(engine))
    rows = asyncio.run(good.async_invoke("one")) + asyncio.run(bad.async_invoke("two"))
    outputs = [output for row in rows for output in split.process_element(row, None)]
    assert outputs[0] == "one: answer"
    assert [tag.tag_id for tag, _ in outputs[1:]] == [tags.traces.tag_id, tags.traces.tag_id, tags.errors.tag_id]
    counted = engine.counters
    assert (counted["activations_committed"], counted["activations_failed"], counted["calls"]) == (1, 1, 1)
