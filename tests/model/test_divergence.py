"""An activation that runs again and asks something else than the journal knows at that position."""

from __future__ import annotations

import pytest

from beam_agents.errors import DivergenceError
from beam_agents.journals import open_journal, reset_memory_journals
from beam_agents.model import LlmRequest
from beam_agents.model.fingerprint import changed_fields, fingerprint
from beam_agents.ports import CallIdentity
from beam_agents.testing import FakeLLM, match_any, respond_with
from tests.model.conftest import KEY, Bench, answer, ask
from tests.model.parts import NoteJournal


@pytest.fixture
async def journal():
    reset_memory_journals()
    opened = open_journal("memory://divergence", now_ms=lambda: 1_000_000)
    yield opened
    await opened.aclose()


def bench() -> Bench:
    return Bench(FakeLLM([(match_any(), respond_with(answer()))]))


async def test_a_changed_prompt_is_paid_for_and_told_by_field(journal, caplog) -> None:
    await bench().facade(journal=journal).complete(ask("secret one"), entity_key=KEY, seq=0)
    again = bench()
    result = await again.facade(journal=journal).complete(ask("secret two", temperature=0), entity_key=KEY, seq=0)
    assert not result.cache_hit
    found = again.attributes
    assert found["beam_agents.replay"] == "diverged"
    assert found["beam_agents.diverged_fields"] == "messages[0].content,sampling_params.temperature"
    assert found["beam_agents.billed"] == "true"
    assert "messages[0].content" in caplog.text
    assert "secret" not in caplog.text


async def test_the_strict_policy_refuses_before_anything_is_sent(journal) -> None:
    await bench().facade(journal=journal).complete(ask("one"), entity_key=KEY, seq=0)
    again = bench()
    with pytest.raises(DivergenceError) as caught:
        await again.facade(journal=journal, on_divergence="strict").complete(ask("two"), entity_key=KEY, seq=0)
    assert caught.value.changed == ("messages[0].content",)
    assert again.llm.call_count == 0
    assert again.attributes["error.type"] == "DivergenceError"


async def test_the_same_request_and_other_positions_do_not_diverge(journal) -> None:
    await bench().facade(journal=journal).complete(ask("one"), entity_key=KEY, seq=0)
    again = bench()
    facade = again.facade(journal=journal, on_divergence="strict")
    assert (await facade.complete(ask("one"), entity_key=KEY, seq=0)).cache_hit
    await facade.complete(ask("two"), entity_key=KEY, seq=0)
    await again.facade(journal=journal, on_divergence="strict").complete(ask("two"), entity_key=KEY, seq=1)
    scoped = again.facade(journal=journal, on_divergence="strict", scope="another")
    await scoped.complete(ask("three"), entity_key=KEY, seq=0)
    assert again.llm.call_count == 3


def test_a_fingerprint_names_each_part_and_holds_none_of_it() -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    request = LlmRequest("m", [{"role": "user", "content": parts}], {"a": 1}, {"top_p": 0.5})
    told = fingerprint(request, "here")
    assert [path for path, _ in told] == [
        "model",
        "messages[0].role",
        "messages[0].content[0]",
        "messages[0].content[1]",
        "tools_schema",
        "sampling_params.top_p",
    ]
    assert "look" not in repr(told)
    assert told == fingerprint(request, "here")
    assert not {digest for _, digest in told} & {digest for _, digest in fingerprint(request, "there")}


def test_changed_fields_are_those_that_differ_or_stand_on_one_side() -> None:
    then = (("model", "1"), ("messages[0].content", "2"), ("messages[1].content", "3"))
    now = (("model", "1"), ("messages[0].content", "9"), ("tools_schema", "4"))
    assert changed_fields(then, now) == ("messages[0].content", "tools_schema", "messages[1].content")


def test_a_message_that_is_no_object_has_a_digest_of_its_own() -> None:
    assert [path for path, _ in fingerprint(LlmRequest("m", ["hi", {"role": "user"}]), "here")] == [
        "model",
        "messages[0]",
        "messages[1].role",
    ]


async def test_another_call_with_the_same_digests_is_no_divergence() -> None:
    told = fingerprint(ask(), f"|{KEY.hex()}|0|0")
    journal = NoteJournal(others=(CallIdentity("another sample", KEY, fingerprint=told),))
    found = bench()
    await found.facade(journal=journal, on_divergence="strict").complete(ask(), entity_key=KEY, seq=0)
    assert "beam_agents.replay" not in found.attributes
