"""Structured output on each wire."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from beam_agents.errors import SchemaNotExpressibleError
from beam_agents.values import LlmRequest
from tests.providers.wires import WIRES, Wire
from tests.servers.raw_tcp import RawServer, answer


class Verdict(BaseModel):
    label: str
    score: float = 0.0


class Vast(BaseModel):
    atoms: int = Field(le=10**30)


class Tags(BaseModel):
    by_name: dict[str, str]


TALK = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "good?"}]


def response_format(model: type[BaseModel]) -> dict[str, Any]:
    wrapped = {"name": model.__name__, "schema": model.model_json_schema(), "strict": True}
    return {"type": "json_schema", "json_schema": wrapped}


async def sent(wire: Wire, model: type[BaseModel] | dict[str, Any], params: Any = None, **options: Any) -> Any:
    asked = model if isinstance(model, dict) else response_format(model)
    with RawServer(lambda request: answer(wire.answer("{}"))) as server:
        client = wire.client(server.url, **options)
        try:
            await client.complete(LlmRequest("test-model", TALK, None, {**(params or {}), "response_format": asked}))
        finally:
            await client.aclose()
            count = len(server.received)
        assert count == 1
        return server.received[0].json


async def test_openai():
    body = await sent(WIRES["openai"], Verdict)
    wrapped = body["response_format"]["json_schema"]
    assert (wrapped["name"], wrapped["strict"]) == ("Verdict", True)
    assert wrapped["schema"]["required"] == ["label", "score"]
    assert wrapped["schema"]["additionalProperties"] is False


async def test_anthropic():
    body = await sent(WIRES["anthropic"], Verdict, {"output_config": {"effort": "low"}})
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["output_config"]["format"]["schema"]["required"] == ["label"]
    assert "response_format" not in body


async def test_gemini():
    body = await sent(WIRES["gemini"], Tags, {"temperature": 0})
    config = body["generationConfig"]
    assert (config["temperature"], config["responseMimeType"]) == (0, "application/json")
    assert config["responseJsonSchema"]["properties"]["by_name"]["additionalProperties"] == {"type": "string"}
    assert "response_format" not in body


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_what_cannot_be_asked_for_is_refused_before_any_call(vendor: str):
    with RawServer(lambda request: answer({})) as server:
        client = WIRES[vendor].client(server.url)
        request = LlmRequest("test-model", TALK, None, {"response_format": response_format(Tags)})
        with pytest.raises(SchemaNotExpressibleError, match="by_name"):
            await client.complete(request)
    assert server.received == []


async def test_the_schema_may_go_into_the_prompt_instead(wire: Wire):
    body = await sent(wire, Tags, structured_output="prompt")
    shown = str(body)
    assert "by_name" in shown
    assert "Judge." in shown
    for key in ("response_format", "output_config", "generationConfig"):
        assert key not in body


async def test_plain_text_needs_no_schema(wire: Wire):
    body = await sent(wire, {"type": "text"})
    assert "output_config" not in body
    assert "generationConfig" not in body


@pytest.mark.parametrize("vendor", ["anthropic", "gemini"])
async def test_json_without_a_schema_is_refused_where_the_wire_has_no_such_mode(vendor: str):
    with RawServer(lambda request: answer({})) as server:
        client = WIRES[vendor].client(server.url)
        request = LlmRequest("test-model", TALK, None, {"response_format": {"type": "json_object"}})
        with pytest.raises(SchemaNotExpressibleError, match="json_schema"):
            await client.complete(request)
    assert server.received == []


def test_an_unknown_mode_is_refused_at_once(wire: Wire):
    with pytest.raises(ValueError, match="structured_output"):
        wire.client("http://127.0.0.1:1", structured_output="maybe")


@pytest.mark.parametrize("mode", ["native", "prompt"])
async def test_a_bound_beyond_64_bits_reaches_the_wire_or_the_words(wire: Wire, mode: str):
    assert str(10**30) in str(await sent(wire, Vast, structured_output=mode))
