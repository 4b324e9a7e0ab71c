"""Prompts and answers in traces: only when asked for, redacted, in the convention's form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_agents.activation import AgentConfig
from beam_agents.activation.content import MAX_CHARS, record_content
from beam_agents.testing import FakeLLM, match_any, respond_with
from beam_agents.values import DecodedResponse, LlmRequest
from tests.activation.conftest import body

INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
WITHHELD = {"beam_agents.content_withheld": "ValueError"}


def request(*messages: Any) -> LlmRequest:
    return LlmRequest("m", messages)


def recorded(*messages: Any, answer: DecodedResponse | None = None, redact: Any = None) -> Any:
    found = record_content(request(*messages), answer, redact)
    return {name: json.loads(text) for name, text in found.items()}


async def _asking(ctx: Any, event: Any) -> None:
    await ctx.complete(f"about {event}")


async def test_nothing_of_prompt_or_answer_is_recorded_unless_asked_for(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body("the answer")))
    _, call = (await run(_asking, "the event")).trace_events
    assert not {INPUT, OUTPUT} & set(call.attributes)
    assert "the event" not in str(call)
    assert "the answer" not in str(call)


async def test_what_is_asked_for_is_recorded_and_redacted(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body("hello Ada")))
    outcome = await run(_asking, "Ada", record_content=True, redact=lambda text: text.replace("Ada", "[name]"))
    _, call = outcome.trace_events
    assert json.loads(call.attributes[INPUT]) == [
        {"role": "user", "parts": [{"type": "text", "content": "about [name]"}]}
    ]
    assert json.loads(call.attributes[OUTPUT]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "hello [name]"}], "finish_reason": "unknown"}
    ]


def _raising(text: str) -> str:
    raise ValueError(f"cannot read {text}")


async def test_a_redactor_that_fails_records_nothing_and_fails_no_call(run: Any, llm: FakeLLM) -> None:
    llm.add_rule(match_any(), respond_with(body("secret answer")))
    outcome = await run(_asking, "secret", record_content=True, redact=_raising)
    assert outcome.committed
    assert WITHHELD.items() <= dict(outcome.trace_events[1].attributes).items()
    assert "secret" not in str(outcome.trace_events)


def test_a_redactor_that_fails_on_the_answer_alone_withholds_the_prompt_too() -> None:
    def picky(text: str) -> str:
        return _raising(text) if "answer" in text else text

    answer = DecodedResponse(None, "the answer")
    assert record_content(request({"role": "user", "content": "q"}), answer, picky) == WITHHELD


def test_a_redactor_that_returns_no_text_records_nothing() -> None:
    found = record_content(request({"role": "user", "content": "q"}), None, lambda text: None)  # type: ignore[arg-type]
    assert found == {"beam_agents.content_withheld": "TypeError"}


def test_tools_and_parts_take_the_conventions_form() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
    found = recorded(
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        answer=DecodedResponse(None, None, "tool_calls", tool_calls=(call,)),
    )
    told = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}}
    assert found[INPUT] == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Look:"}, {"type": "image_url"}]},
        {"role": "assistant", "parts": [told]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rain"}]},
    ]
    assert found[OUTPUT] == [{"role": "assistant", "parts": [told], "finish_reason": "tool_call"}]


def test_the_arguments_of_a_tool_are_redacted_too() -> None:
    call = {"id": "c1", "function": {"name": "pay", "arguments": '{"card":"4111"}'}}
    found = recorded({"role": "assistant", "tool_calls": [call]}, redact=lambda text: text.replace("4111", "…"))
    assert found[INPUT][0]["parts"][0]["arguments"] == {"card": "…"}


def test_what_looks_like_a_key_never_reaches_a_trace_or_the_redactor() -> None:
    seen: list[str] = []
    found = recorded({"role": "user", "content": "use sk-abc123_x now"}, redact=lambda text: seen.append(text) or text)
    assert seen == ["use … now"]
    assert found[INPUT][0]["parts"][0]["content"] == "use … now"


def test_a_long_prompt_is_cut_after_it_was_redacted_and_says_so() -> None:
    found = recorded(
        {"role": "user", "content": "x" * MAX_CHARS + "secret"},
        {"role": "user", "content": "more"},
        redact=lambda text: text.replace("secret", "…"),
    )
    first, second = (message["parts"][0]["content"] for message in found[INPUT])
    assert first == "x" * MAX_CHARS + "… (1 more characters)"
    assert second == "… (4 more characters)"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_keys = st.sampled_from(["role", "content", "tool_calls", "text", "type", "function", "tool_call_id"])


@settings(deadline=None, max_examples=200)
@given(st.lists(st.dictionaries(_keys, _json, max_size=4), max_size=3))
def test_no_message_is_too_odd_to_be_told_or_withheld(messages: list[Any]) -> None:
    found = record_content(request(*messages), DecodedResponse(None, "\ud83d"), None)
    if "beam_agents.content_withheld" not in found:
        assert len(json.loads(found[INPUT])) == len(messages)
    assert all(text.encode() for text in found.values())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"record_content": 1}, "record_content must be True or False"),
        ({"record_content": True, "redact": "x"}, "redact must take a text"),
        ({"redact": str.lower}, "redact has no effect without record_content=True"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AgentConfig("openai:m", **fields)
