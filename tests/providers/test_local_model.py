"""A real language model on this machine, over the real wires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

import beam_agents
from beam_agents.cli.local.llama import serve_gguf
from beam_agents.cli.local.weights import weights_path
from tests.providers.agents import Bench
from tests.providers.wires import KEY, WIRES

pytestmark = pytest.mark.local_model

NAME = "gemma-3-270m"


class Colour(BaseModel):
    colour: Literal["red", "green", "blue"]


EXAMPLES = [
    ("grass", "green"),
    ("the sky", "blue"),
    ("blood", "red"),
    ("the sea", "blue"),
    ("a fire engine", "red"),
]


def talk(thing: str) -> list[dict[str, str]]:
    shown: list[dict[str, str]] = []
    for known, colour in EXAMPLES:
        shown.append({"role": "user", "content": known})
        shown.append({"role": "assistant", "content": Colour(colour=colour).model_dump_json()})
    return [*shown, {"role": "user", "content": thing}]


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(Path(beam_agents.__file__).parents[1]))
        log = tmp_path_factory.mktemp("gemma") / "log"
        child = serve_gguf(weights_path(), alias=NAME, log=log, threads=1, api_key=KEY, base_model=True)
    with child:
        yield child.endpoint


async def test_it_classifies_under_a_schema_and_says_the_same_again(gemma: str):
    answers = []
    for _ in range(2):
        bench = Bench(WIRES["openai"].client(gemma + "/v1"))
        result = await bench.complete(talk("leaves"), output_schema=Colour, temperature=0, max_tokens=40)
        await bench.client.aclose()
        answers.append(result.parsed)
        assert result.usage.prompt_tokens > result.usage.completion_tokens > 0
    assert answers[0] == answers[1]
    assert answers[0].colour in ("red", "green", "blue")


async def test_the_anthropic_wire_answers_too(gemma: str):
    bench = Bench(WIRES["anthropic"].client(gemma))
    result = await bench.complete(talk("leaves"), temperature=0, max_tokens=12)
    await bench.client.aclose()
    assert result.text
    assert result.usage.prompt_tokens > 0


async def test_a_schema_in_the_prompt_is_still_validated(gemma: str):
    bench = Bench(WIRES["openai"].client(gemma + "/v1", structured_output="prompt"))
    result = await bench.complete(talk("leaves"), output_schema=Colour, temperature=0, max_tokens=40)
    await bench.client.aclose()
    assert result.parsed.colour in ("red", "green", "blue")
