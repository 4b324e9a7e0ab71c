"""`beam-agents schema`: what a vendor is asked for a model, or why it cannot be."""

from __future__ import annotations

import json

import pytest

from beam_agents.providers import schema_report
from tests.cli.agents.shapes import Bounded
from tests.cli.running import AGENTS, Command

SHAPES = f"{AGENTS.parent}/shapes.py"


@pytest.mark.parametrize("vendor", ["anthropic", "gemini", "openai"])
def test_it_shows_the_wire_schema_and_every_difference(beam_agents: Command, vendor: str) -> None:
    ran = beam_agents("schema", f"{SHAPES}:Bounded", f"--model={vendor}:m", "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    report = schema_report(Bounded, f"{vendor}:m")
    assert told["schema"] == report.schema
    assert [one["keyword"] for one in told["differences"]] == [one.keyword for one in report.differences]


def test_people_see_what_is_dropped(beam_agents: Command) -> None:
    shown = beam_agents("schema", f"{SHAPES}:Bounded", "--model=anthropic:m").stdout
    schema, _, differences = shown.partition("\n}\n")
    assert json.loads(schema + "}")["additionalProperties"] is False
    assert "5 is not sent; the answer is still checked" in differences
    assert "Nothing is dropped" in beam_agents("schema", f"{SHAPES}:Plain", "--model=anthropic:m").stdout


def test_what_cannot_be_asked_for_is_an_error_before_any_call(beam_agents_process: Command) -> None:
    ran = beam_agents_process("schema", f"{SHAPES}:FreeKeys", "--model=openai:m")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Error: openai cannot be asked for this output schema: field 'tags': a map with free")
    told = json.loads(beam_agents_process("schema", f"{SHAPES}:FreeKeys", "--model=openai:m", "--json").stdout)
    assert (told["expressible"], told["field"]) == (False, "tags")


@pytest.mark.parametrize(
    ("reference", "model", "said"),
    [
        (f"{SHAPES}:Bound", "openai:m", "did you mean Bounded?"),
        ("os.path:join", "openai:m", "is no Pydantic model"),
        (f"{SHAPES}:Unresolved", "openai:m", "has no JSON schema"),
        (f"{SHAPES}:Plain", "nobody:m", "known are anthropic, gemini, openai"),
        ("Plain", "openai:m", "does not name a Pydantic model"),
    ],
)
def test_bad_input_is_one_sentence(beam_agents: Command, reference: str, model: str, said: str) -> None:
    ran = beam_agents("schema", reference, f"--model={model}")
    assert said in ran.stderr
    assert ran.stderr.startswith("Error: ")
    assert (ran.returncode, ran.stdout) == (2, "")


def test_help_shows_an_example(beam_agents: Command) -> None:
    assert "beam-agents schema" in beam_agents("schema", "--help").stdout.split("Example:")[1]
