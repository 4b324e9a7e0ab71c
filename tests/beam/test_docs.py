"""The pages about Beam: their examples run, and what they list is there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from beam_agents import AgentConfig
from tests.beam.endpoint import CountingEndpoint

DOCS = Path(__file__).parents[2] / "docs"


def _page(name: str) -> str:
    return (DOCS / name).read_text()


def _blocks(name: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", _page(name), re.DOTALL))


def test_the_examples_of_the_beam_page_run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-test")
    with CountingEndpoint() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        exec(compile(_blocks("beam.md"), "beam.md", "exec"), {"__name__": "example"})
        assert endpoint.served == 6
    said = capfd.readouterr().out
    assert "{'event': 'Anna', 'greeting': 'hello', 'nth': 1}" in said
    assert "('Bern', 'hello')" in said
    assert "Say hi hello" in said


def test_the_example_of_the_load_page_is_a_configuration() -> None:
    found: dict[str, object] = {}
    exec(compile(_blocks("load.md"), "load.md", "exec"), found)
    assert isinstance(found["config"], AgentConfig)


@pytest.mark.parametrize("setting", re.findall(r"^\| `(\w+)` \|", _page("load.md"), re.MULTILINE))
def test_the_load_page_names_settings_and_their_defaults(setting: str) -> None:
    (field,) = [field for field in fields(AgentConfig) if field.name == setting]
    (row,) = re.findall(rf"^\| `{setting}` \|.*\| (.*) \|$", _page("load.md"), re.MULTILINE)
    told = {"none": None, "as `max_in_flight`": None}.get(row, row.strip("`"))
    assert str(field.default) == str(told)
