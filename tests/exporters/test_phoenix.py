"""Spans read back over the API of a running Arize Phoenix, named by `PHOENIX_URL` (such as http://127.0.0.1:6006)."""

from __future__ import annotations

import json
import os
import urllib.request
import uuid
from typing import Any

import pytest

from beam_agents import attributes as names
from beam_agents.exporters import open_exporter
from beam_agents.proto import TraceEvent
from beam_agents.report.build import report_of
from beam_agents.report.gather import Gathering
from tests.report.events import sample_run

URL = os.environ.get("PHOENIX_URL", "")

pytestmark = pytest.mark.phoenix


@pytest.fixture(scope="module", autouse=True)
def running() -> None:
    assert URL, "set PHOENIX_URL to a running Phoenix: pip install arize-phoenix, then phoenix serve"


_SUMS = "name tokenCountTotal recordCount costSummary { total { cost tokens } }"
_COST = f"{{ projects(first: 1000) {{ edges {{ node {{ {_SUMS} }} }} }} }}"


def read(path: str, **query: str) -> Any:
    body = json.dumps(query).encode() if query else None
    request = urllib.request.Request(f"{URL}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def project_of(name: str) -> dict[str, Any] | None:
    edges = read("/graphql", query=_COST)["data"]["projects"]["edges"]
    return next((edge["node"] for edge in edges if edge["node"]["name"] == name), None)


@pytest.fixture(scope="module")
def sent() -> tuple[str, list[TraceEvent]]:
    """The name of a fresh project and the events sent to it, once Phoenix has priced them all."""
    mask = uuid.uuid4().bytes
    project, events = f"beam-agents-{mask.hex()[:8]}", [_masked(event, mask) for event in sample_run(30)]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_METRICS_EXPORTER", "none")
        environment.setenv("OTEL_RESOURCE_ATTRIBUTES", f"openinference.project.name={project}")
        exporter = open_exporter(URL)
        exporter.export(events)
        exporter.close()
    assert exporter.exported == len(events)
    for _ in range(2_000):
        found = project_of(project)
        whole = found is not None and found["recordCount"] == len(events)
        if whole and found["tokenCountTotal"] == found["costSummary"]["total"]["tokens"]:
            break
    return project, events


def _masked(event: TraceEvent, mask: bytes) -> TraceEvent:
    """With ids of its own: Phoenix keeps the first span of an id."""
    for field in ("trace_id", "span_id", "parent_span_id"):
        setattr(event, field, bytes(a ^ b for a, b in zip(getattr(event, field), mask, strict=False)))
    return event


def spans_of(project: str) -> dict[str, dict[str, Any]]:
    return {one["context"]["span_id"]: one for one in read(f"/v1/projects/{project}/spans?limit=1000")["data"]}


def test_calls_are_llm_spans_and_children_of_their_agents(sent: tuple[str, list[TraceEvent]]) -> None:
    project, events = sent
    spans = spans_of(project)
    assert len(spans) == len(events)
    for event in events:
        span = spans[event.span_id.hex()]
        assert span["span_kind"] == ("LLM" if event.event_type == TraceEvent.LLM_CALL else "AGENT")
        assert (span["parent_id"] or "") == event.parent_span_id.hex()


def test_the_tokens_of_each_call_are_right(sent: tuple[str, list[TraceEvent]]) -> None:
    project, events = sent
    spans = spans_of(project)
    for event in events:
        asked = event.attributes.get(names.CACHE_HIT) == "false"
        told = spans[event.span_id.hex()]["attributes"].get("llm.token_count.prompt")
        assert told == (int(event.attributes[names.GEN_AI_USAGE_INPUT_TOKENS]) if asked else None)


def test_tokens_and_cost_of_the_whole_are_those_of_our_own_account(sent: tuple[str, list[TraceEvent]]) -> None:
    project, events = sent
    gathering = Gathering()
    for event in events:
        gathering.add_event(event)
    billed, found = report_of(gathering).tally("billed"), project_of(project)
    assert found is not None
    assert found["tokenCountTotal"] == billed.tokens
    assert found["costSummary"]["total"]["cost"] == pytest.approx(float(billed.money), rel=1e-9)
