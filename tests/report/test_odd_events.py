"""No event, however odd, keeps a report from being made."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_agents.attributes import ATTRIBUTE_TYPES
from beam_agents.proto import TraceEvent
from beam_agents.report.build import report_of
from beam_agents.report.dead_letters import Letter
from beam_agents.report.formats import FORMATS
from beam_agents.report.gather import Gathering
from tests.report.events import call, dead_letter

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = (
    TEXT
    | st.sampled_from(["true", "false", "-1", "nan", "inf", "1e999", "9" * 40, "[]", "[1]", '[{"id":1}]', "journal"])
    | st.sampled_from(["null", '[{"id":"a:1","outcome":"failed","status":[]}]', "openai", "gpt-4o-mini", "127.0.0.1"])
)
EVENTS = st.builds(
    TraceEvent,
    trace_id=st.binary(max_size=16),
    span_id=st.binary(max_size=8),
    entity_key=st.binary(max_size=4),
    seq=INT64,
    step_index=INT64,
    event_type=st.sampled_from([0, 1, 1, 1, 2, 77]),
    attributes=st.dictionaries(st.sampled_from(sorted(ATTRIBUTE_TYPES)) | TEXT, VALUES, max_size=12),
    start_ms=INT64 | st.integers(0, 2_000_000_000_000),
    end_ms=INT64 | st.integers(0, 2_000_000_000_000),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, max_size=6), st.lists(EVENTS, max_size=2))
def test_any_events_make_a_report_in_every_format(events: list[TraceEvent], lost: list[TraceEvent]) -> None:
    gathering = Gathering()
    for event in events:
        gathering.add_event(event)
    if lost:
        gathering.add_dead_letter(Letter.from_json(dead_letter(*lost)))
    report = report_of(gathering)
    assert json.loads(FORMATS["json"].one(report))["calls"] == report.calls
    assert all(form.one(report) and form.two(report, report) for form in FORMATS.values())


def test_the_earliest_time_of_all_is_one_of_64_bits_in_a_report_too() -> None:
    gathering = Gathering()
    gathering.add_event(TraceEvent(event_type=TraceEvent.LLM_CALL, end_ms=-(2**63)))
    assert json.loads(FORMATS["json"].one(report_of(gathering)))["timeline"][0]["start_ms"] == -(2**63)


def test_a_count_that_cannot_be_is_unknown() -> None:
    gathering = Gathering()
    gathering.add_event(call(**{"gen_ai.usage.input_tokens": "-5", "gen_ai.usage.output_tokens": "9" * 30}))
    assert report_of(gathering).tally("billed").without_usage == 1
