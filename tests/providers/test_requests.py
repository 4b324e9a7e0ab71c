"""What each client writes on its wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam_agents.providers.anthropic import AnthropicClient
from beam_agents.providers.gemini import GeminiClient
from beam_agents.providers.openai import OpenAIClient
from beam_agents.values import LlmRequest
from tests.servers.raw_tcp import RawServer, Received, answer

PNG = "data:image/png;base64,iVBORw0KGgo="
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Weather?"}, {"type": "image_url", "image_url": {"url": PNG}}],
    },
    {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "call_2"}]},
    {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "clear"}'},
    {"role": "tool", "tool_call_id": "call_2", "content": "rain"},
    {"role": "user", "content": "And now?"},
]


async def sent(kind: Any, messages: Any = TALK, tools: Any = None, options: Any = None, **params: Any) -> Received:
    """The request that a client writes."""
    with RawServer(lambda request: answer({})) as server:
        client = kind(**{"base_url": server.url, "api_key": "k", **(options or {})})
        await client.complete(LlmRequest("m", messages, tools, params or None))
        await client.aclose()
        return server.received[0]


async def body_of(kind: Any, *args: Any, **params: Any) -> Any:
    return (await sent(kind, *args, **params)).json


async def test_openai_sends_the_neutral_form_as_it_is():
    body = await body_of(OpenAIClient, TALK, [WEATHER], tool_choice="required", temperature=0, max_completion_tokens=9)
    assert body == {
        "model": "m",
        "messages": TALK,
        "tools": [WEATHER],
        "tool_choice": "required",
        "temperature": 0,
        "max_completion_tokens": 9,
    }


async def test_openai_headers_and_azure_shape(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    seen = await sent(OpenAIClient, options={"project": "proj-1", "headers": {"X-Team": "data"}})
    assert (seen.headers["openai-organization"], seen.headers["openai-project"]) == ("org-1", "proj-1")
    assert seen.headers["x-team"] == "data"
    assert "user-agent" not in seen.headers
    with RawServer(lambda request: answer({})) as server:
        client = OpenAIClient(
            base_url=server.url + "/openai/deployments/{model}", api_key="k", auth="api-key", api_version="2026-01-01"
        )
        await client.complete(LlmRequest("dep", TALK))
        await client.aclose()
    (request,) = server.received
    assert request.path == "/openai/deployments/dep/chat/completions?api-version=2026-01-01"
    assert request.headers["api-key"] == "k"
    assert "authorization" not in request.headers


async def test_azures_usual_names_in_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "of-azure")
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    monkeypatch.setenv("OPENAI_API_VERSION", "2026-02-02")
    seen = await sent(OpenAIClient, options={"api_key": None, "auth": "api-key"})
    assert (seen.headers["api-key"], seen.path) == ("of-azure", "/chat/completions?api-version=2026-02-02")
    seen = await sent(OpenAIClient, options={"api_key": None})
    assert (seen.headers["authorization"], seen.path) == ("Bearer of-openai", "/chat/completions")


async def test_anthropic_messages():
    body = await body_of(AnthropicClient)
    assert body["system"] == [{"type": "text", "text": "Be brief."}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    use = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Bern"}}
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}, image]},
        {"role": "assistant", "content": [use, {**use, "id": "call_2"}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "content": [{"type": "text", "text": '{"sky": "clear"}'}],
                },
                {"type": "tool_result", "tool_use_id": "call_2", "content": [{"type": "text", "text": "rain"}]},
                {"type": "text", "text": "And now?"},
            ],
        },
    ]


async def test_anthropic_parameters():
    body = await body_of(
        AnthropicClient,
        TALK,
        [WEATHER, {"type": "web_search_20250305", "name": "web_search"}],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        parallel_tool_calls=False,
        stop="END",
        user="u1",
        temperature=0.5,
        thinking={"type": "enabled", "budget_tokens": 1024},
    )
    assert body["max_tokens"] == 4096
    assert body["tools"] == [
        {
            "name": "weather",
            "description": "The weather of a city",
            "input_schema": WEATHER["function"]["parameters"],
        },
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    assert body["tool_choice"] == {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    assert (body["stop_sequences"], body["metadata"]) == (["END"], {"user_id": "u1"})
    assert (body["temperature"], body["thinking"]["budget_tokens"]) == (0.5, 1024)


@pytest.mark.parametrize(("name", "value"), [("max_tokens", 7), ("max_completion_tokens", 7)])
async def test_anthropic_max_tokens(name: str, value: int):
    body = await body_of(AnthropicClient, **{name: value})
    assert body["max_tokens"] == value
    assert "max_completion_tokens" not in body


@pytest.mark.parametrize(
    ("choice", "expected"), [("auto", {"type": "auto"}), ("none", {"type": "none"}), ("required", {"type": "any"})]
)
async def test_anthropic_tool_choice(choice: str, expected: Any):
    assert (await body_of(AnthropicClient, TALK, [WEATHER], tool_choice=choice))["tool_choice"] == expected


async def test_anthropic_headers():
    seen = await sent(AnthropicClient)
    assert (seen.headers["x-api-key"], seen.headers["anthropic-version"]) == ("k", "2023-06-01")
    seen = await sent(AnthropicClient, options={"bearer": True})
    assert seen.headers["authorization"] == "Bearer k"
    assert "x-api-key" not in seen.headers


async def test_anthropics_token_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-key")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "the-token")
    seen = await sent(AnthropicClient, options={"bearer": True, "api_key": None})
    assert seen.headers["authorization"] == "Bearer the-token"
    seen = await sent(AnthropicClient, options={"api_key": None})
    assert seen.headers["x-api-key"] == "the-key"


async def test_gemini_contents():
    body = await body_of(GeminiClient)
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    call = {"functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Bern"}}}
    assert body["contents"] == [
        {
            "role": "user",
            "parts": [{"text": "Weather?"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
        },
        {"role": "model", "parts": [call, {"functionCall": {**call["functionCall"], "id": "call_2"}}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "call_1", "name": "weather", "response": {"sky": "clear"}}},
                {"functionResponse": {"id": "call_2", "name": "weather", "response": {"result": "rain"}}},
                {"text": "And now?"},
            ],
        },
    ]
    assert "generationConfig" not in body


async def test_gemini_returns_the_thought_signature_and_no_id_of_ours():
    answered = {"functionCall": {"name": "weather", "args": {}}, "thoughtSignature": "sig"}
    decoded = GeminiClient.decode(json.dumps({"candidates": [{"content": {"parts": [answered]}}]}).encode())
    (call,) = decoded.tool_calls
    talk = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": decoded.text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "5"},
    ]
    contents = (await body_of(GeminiClient, talk))["contents"]
    assert contents[1]["parts"] == [answered]
    assert contents[2]["parts"] == [{"functionResponse": {"name": "weather", "response": {"result": 5}}}]


async def test_gemini_parameters():
    body = await body_of(
        GeminiClient,
        TALK,
        [WEATHER],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        max_tokens=7,
        stop=["A", "B"],
        seed=1,
        n=2,
        generationConfig={"thinkingConfig": {"thinkingBudget": 0}},
        safetySettings=[],
    )
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 5,
        "maxOutputTokens": 7,
        "stopSequences": ["A", "B"],
        "seed": 1,
        "candidateCount": 2,
        "thinkingConfig": {"thinkingBudget": 0},
    }
    assert body["safetySettings"] == []
    function = WEATHER["function"]
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "weather",
                    "description": "The weather of a city",
                    "parametersJsonSchema": function["parameters"],
                }
            ]
        }
    ]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}}


@pytest.mark.parametrize(("choice", "mode"), [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY")])
async def test_gemini_tool_choice(choice: str, mode: str):
    body = await body_of(GeminiClient, TALK, [WEATHER], tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": mode}}


async def test_images_by_url():
    talk = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/a.jpg?s=1"}}]}]
    anthropic, gemini = await body_of(AnthropicClient, talk), await body_of(GeminiClient, talk)
    source = {"type": "url", "url": "https://x.example/a.jpg?s=1"}
    assert anthropic["messages"][0]["content"] == [{"type": "image", "source": source}]
    file = {"fileUri": "https://x.example/a.jpg?s=1", "mimeType": "image/jpeg"}
    assert gemini["contents"][0]["parts"] == [{"fileData": file}]


@pytest.mark.parametrize("kind", [AnthropicClient, GeminiClient])
@pytest.mark.parametrize(
    "message",
    [
        {"role": "poet", "content": "x"},
        {"role": "user", "content": 5},
        {"role": "user", "content": [5]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}]},
        {"role": "user", "content": [{"type": "image_url"}]},
        {"role": "assistant", "tool_calls": [{"id": "x"}]},
        {"role": "assistant", "tool_calls": ["x"]},
        {"role": "assistant", "tool_calls": {"id": "x"}},
        {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{broken"}}]},
        {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "[]"}}]},
    ],
)
async def test_a_message_that_the_wire_cannot_hold_is_refused_before_anything_is_sent(kind: Any, message: Any):
    with RawServer(lambda request: answer({})) as server:
        client = kind(base_url=server.url)
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
            await client.complete(LlmRequest("m", [message]))
    assert server.received == []


@pytest.mark.parametrize("kind", [OpenAIClient, AnthropicClient, GeminiClient])
@pytest.mark.parametrize("message", ["hi", None, ["user", "hi"], 5])
async def test_a_message_that_is_no_object_is_refused(kind: Any, message: Any):
    with pytest.raises(ValueError, match="must be an object with role and content"):
        await kind(base_url="http://127.0.0.1:1").complete(LlmRequest("m", [message]))


@pytest.mark.parametrize("kind", [OpenAIClient, AnthropicClient, GeminiClient])
async def test_odd_but_writable_values_reach_the_wire(kind: Any):
    talk = [{"role": "user", "content": "half a pair \ud83d"}]
    seen = await sent(kind, talk, big=2**70)
    assert seen.json["big"] == 2**70
    assert b"\\ud83d" in seen.body


@pytest.mark.parametrize("kind", [AnthropicClient, GeminiClient])
async def test_an_answer_without_words_is_left_out_of_the_talk(kind: Any):
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}, {"role": "user", "content": "b"}]
    body = await body_of(kind, talk)
    (turn,) = body.get("messages") or body["contents"]
    assert [part["text"] for part in turn.get("content") or turn["parts"]] == ["a", "b"]


@pytest.mark.parametrize("kind", [AnthropicClient, GeminiClient])
async def test_a_parameter_that_is_none_is_as_if_it_were_not_given(kind: Any):
    body = await body_of(kind, TALK, max_tokens=None, stop=None)
    assert body.get("max_tokens", 4096) == 4096
    assert "generationConfig" not in body
    assert "stop_sequences" not in body


@pytest.mark.parametrize("choice", [{"type": "any"}, {"function": {}}, 5])
async def test_a_tool_choice_that_gemini_has_no_word_for_is_refused(choice: Any):
    with pytest.raises(ValueError, match="tool_choice"):
        await body_of(GeminiClient, TALK, [WEATHER], tool_choice=choice)


@pytest.mark.parametrize("kind", [AnthropicClient, GeminiClient])
async def test_whole_numbers_in_tool_calls_stay_exact(kind: Any):
    vast = 12345678901234567890123
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"id": vast})}}
    talk = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": json.dumps({"id": vast})},
    ]
    seen = await sent(kind, talk)
    assert seen.body.count(str(vast).encode()) == 2
