"""llama.cpp's own server, over its OpenAI and its Anthropic wire, with a tiny random model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import beam_agents
from beam_agents.cli.local.llama import serve_gguf
from beam_agents.errors import OutputSchemaError, ProviderRequestError
from tests.providers.agents import Bench
from tests.providers.wires import KEY, WIRES, Wire
from tests.servers.tiny_model import TINY_MODEL_NAME, write_tiny_model


class Mood(BaseModel):
    mood: Literal["good", "bad"]
    weight: Literal[1, 2, 3] = 1


class Prose(BaseModel):
    text: str


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tiny")
    model = write_tiny_model(folder / "tiny.gguf")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(Path(beam_agents.__file__).parents[1]))
        child = serve_gguf(model, alias=TINY_MODEL_NAME, log=folder / "log", threads=1, api_key=KEY)
    with child:
        yield child.endpoint


def bench_on(tiny: str, wire: Wire, **options: Any) -> Bench:
    return Bench(wire.client(tiny + ("/v1" if wire.vendor == "openai" else ""), **options))


TALK = [{"role": "system", "content": "Judge the mood."}, {"role": "user", "content": "sunny"}]


async def test_a_schema_holds_the_real_server(tiny: str):
    bench = bench_on(tiny, WIRES["openai"])
    result = await bench.complete(TALK, output_schema=Mood, temperature=0, max_tokens=200)
    await bench.client.aclose()
    assert result.parsed.mood in ("good", "bad")
    assert result.usage.prompt_tokens > 0
    assert result.usage.total_tokens == result.usage.prompt_tokens + result.usage.completion_tokens
    assert result.decoded.finish_reason == "stop"


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_plain_text_is_cut_at_the_limit(tiny: str, vendor: str):
    bench = bench_on(tiny, WIRES[vendor])
    result = await bench.complete(TALK, max_tokens=5, temperature=0)
    await bench.client.aclose()
    assert result.decoded.finish_reason == "length"
    assert result.usage.completion_tokens == 5
    assert result.text


async def test_free_text_under_a_schema_is_truncated_and_says_so(tiny: str):
    bench = bench_on(tiny, WIRES["openai"])
    with pytest.raises(OutputSchemaError) as caught:
        await bench.complete(TALK, output_schema=Prose, max_tokens=8, temperature=0)
    await bench.client.aclose()
    assert caught.value.reason == "truncated"
    assert caught.value.usage.completion_tokens == 8


async def test_the_second_equal_prompt_is_partly_cached(tiny: str):
    for _ in range(2):
        bench = bench_on(tiny, WIRES["openai"])
        result = await bench.complete(TALK, max_tokens=1, temperature=0)
        await bench.client.aclose()
    assert 0 < result.usage.cached_tokens < result.usage.prompt_tokens


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_a_wrong_key_is_refused_and_not_retried(tiny: str, vendor: str):
    bench = bench_on(tiny, WIRES[vendor], api_key="sk-wrong-key-999")
    with pytest.raises(ProviderRequestError) as caught:
        await bench.complete(TALK)
    await bench.client.aclose()
    assert caught.value.status == 401
    assert bench.traced_attempts == [1]
    assert "wrong-key" not in str(caught.value)
