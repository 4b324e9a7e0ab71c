"""Agents in Beam YAML, and rows with a schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
import pytest
import yaml
from apache_beam.coders import RowCoder, registry
from apache_beam.yaml.yaml_provider import parse_providers
from apache_beam.yaml.yaml_transform import YamlTransform, expand_pipeline
from apache_beam.yaml.yaml_utils import SafeLineLoader

from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.beam.rows import DeadLetterRow, TraceRow, dead_letter_row, trace_row
from beam_agents.proto import TraceEvent
from tests.beam import scripted
from tests.beam.conftest import options
from tests.beam.endpoint import CountingEndpoint

PROVIDERS = """
providers:
  - type: python
    config: {}
    transforms:
      RunAgent: beam_agents.beam.yaml.run_agent
      Complete: beam_agents.beam.yaml.complete
"""


async def sized(ctx: Any, event: Any) -> Any:
    """An agent over rows."""
    if event["id"] == "b":
        raise ValueError("not b")
    answer = await ctx.complete(event["text"])
    return {"id": event["id"], "answer": answer.text, "nth": ctx.seq}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-test")


def _run(transform: str) -> None:
    pipeline = beam.Pipeline(options=options("FnApiRunner"))
    rows = [beam.Row(id="a", text="one"), beam.Row(id="b", text="two")]
    outputs = pipeline | beam.Create(rows) | YamlTransform(transform, providers=_providers())
    for name, rows_out in outputs.items():
        rows_out | f"keep {name}" >> beam.Map(lambda row, name=name: scripted.keep(name, row))
    pipeline.run().wait_until_finish()


def _providers() -> Any:
    import yaml

    return parse_providers("", yaml.safe_load(PROVIDERS)["providers"])


def test_run_agent_over_rows() -> None:
    with CountingEndpoint() as endpoint:
        _run(f"""
            type: RunAgent
            config:
              agent: tests.beam.test_yaml:sized
              key: id
              model: openai:m
              base_url: {endpoint.url}
              fields: {{id: string, answer: string, nth: integer}}
        """)
    assert [tuple(row) for row in scripted.kept["output"]] == [("a", "hello", 0)]
    ((key, error, event),) = [(row.entity_key, row.error_type, row.event) for row in scripted.kept["errors"]]
    assert (key, error, orjson.loads(event)) == (b"b", "ValueError", {"id": "b", "text": "two"})
    assert sorted(row.event_type for row in scripted.kept["traces"]) == ["ACTIVATION", "LLM_CALL"]


def test_complete_over_rows() -> None:
    with CountingEndpoint() as endpoint:
        _run(f"""
            type: Complete
            config:
              prompt: "Repeat {{text}}"
              model: openai:m
              base_url: {endpoint.url}
        """)
    assert sorted(tuple(row) for row in scripted.kept["output"]) == [("a", "one", "hello"), ("b", "two", "hello")]


def test_an_answer_without_the_fields_is_an_error() -> None:
    with CountingEndpoint() as endpoint:
        _run(f"""
            type: Complete
            config:
              prompt: "Classify {{text}}"
              model: openai:m
              base_url: {endpoint.url}
              fields: {{mood: [good, bad], urgent: boolean}}
        """)
    assert [row.reason for row in scripted.kept["errors"]] == ["invalid_json"] * 2
    assert scripted.kept["output"] == []


def test_the_pipeline_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "beam.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "tickets.csv").write_text("id,text\n1,It crashes\n2,It crashes again\n")
    monkeypatch.chdir(tmp_path)
    with CountingEndpoint(answer='{"category": "bug", "urgent": true}') as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        with beam.Pipeline(options=options("FnApiRunner")) as pipeline:
            expand_pipeline(pipeline, yaml.load(block, Loader=SafeLineLoader))
    written = [orjson.loads(line) for path in tmp_path.glob("sorted.json*") for line in path.read_bytes().splitlines()]
    assert sorted(written, key=lambda row: row["id"]) == [
        {"id": 1, "text": "It crashes", "category": "bug", "urgent": True},
        {"id": 2, "text": "It crashes again", "category": "bug", "urgent": True},
    ]


@pytest.mark.parametrize("event", [{"a": [1]}, (1, 2)])
def test_dead_letters_have_a_schema(event: Any) -> None:
    row = dead_letter_row(DeadLetter(b"\xff", 3, event, "ValueError", "no"))
    coder = registry.get_coder(DeadLetterRow)
    assert isinstance(coder, RowCoder)
    assert coder.decode(coder.encode(row)) == row
    assert (row.event is None) is (row.event_bytes is not None)


def test_trace_events_have_a_schema() -> None:
    row = trace_row(TraceEvent(trace_id=b"\x01" * 16, event_type=1, entity_key=b"k", attributes={"a": "b"}))
    coder = registry.get_coder(TraceRow)
    assert coder.decode(coder.encode(row)) == row
    assert (row.trace_id, orjson.loads(row.attributes)) == ("01" * 16, {"a": "b"})
