"""Trace events to lines of JSON and back."""

from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.exporters.jsonl import (
    MAX_LINE_BYTES,
    EventWriter,
    JsonLineError,
    entity_key_from_json,
    entity_key_to_json,
    event_from_json,
    event_to_json,
    open_lines,
    read_events,
)
from beam_agents.proto import TraceEvent

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
EVENTS = st.builds(
    TraceEvent,
    trace_id=st.binary(max_size=16),
    span_id=st.binary(max_size=8),
    parent_span_id=st.binary(max_size=8),
    entity_key=st.binary() | TEXT.map(str.encode),
    seq=INT64,
    step_index=INT64,
    event_type=st.sampled_from([0, 1, 2, 77]),
    attributes=st.dictionaries(TEXT, TEXT, max_size=4),
    start_ms=INT64,
    end_ms=INT64,
)


def line(**fields: object) -> bytes:
    return orjson.dumps(event_to_json(TraceEvent(**fields))) + b"\n"


@given(EVENTS)
def test_every_event_survives_the_way_to_json_text_and_back(event: TraceEvent) -> None:
    assert event_from_json(orjson.loads(orjson.dumps(event_to_json(event)))) == event


@given(st.binary())
def test_every_entity_key_survives(key: bytes) -> None:
    assert entity_key_from_json(entity_key_to_json(key)) == key


def test_a_text_key_reads_as_text_and_another_says_that_it_is_hex() -> None:
    assert entity_key_to_json("käufer/7".encode()) == "käufer/7"
    assert entity_key_to_json(b"\xff\x00") == {"hex": "ff00"}
    assert entity_key_to_json(b'{"hex":"ff00"}') == '{"hex":"ff00"}'


def test_the_event_type_is_written_by_name() -> None:
    assert event_to_json(TraceEvent(event_type=TraceEvent.LLM_CALL))["event_type"] == "LLM_CALL"


def test_absent_fields_take_their_defaults_and_unknown_ones_are_ignored() -> None:
    assert event_from_json({"seq": 3, "of_a_newer_version": [1]}) == TraceEvent(seq=3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq", "3"),
        ("seq", True),
        ("seq", 2**63),
        ("trace_id", 5),
        ("span_id", "not hex"),
        ("event_type", "LLM"),
        ("event_type", None),
        ("entity_key", 7),
        ("entity_key", {"hex": "f"}),
        ("entity_key", {"hex": 1}),
        ("attributes", []),
        ("attributes", {"a": 1}),
    ],
)
def test_a_field_of_the_wrong_type_is_a_value_error(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        event_from_json({field: value})  # type: ignore[dict-item]


def test_a_bad_line_in_the_middle_is_named_by_its_number() -> None:
    events = read_events(io.BytesIO(line(seq=1) + b'{"seq": \n' + line(seq=2)), name="traces.jsonl")
    with pytest.raises(JsonLineError, match=r"^traces\.jsonl, line 2: ") as caught:
        list(events)
    assert caught.value.line == 2


@pytest.mark.parametrize("bad", [b"[1]\n", b"null\n", b"NaN\n", b'"text"\n', b'{"seq":"1"}\n', b"\xff\xfe\n"])
def test_a_line_that_is_no_event_raises(bad: bytes) -> None:
    with pytest.raises(JsonLineError, match="line 1"):
        list(read_events(io.BytesIO(bad)))


def test_a_cut_last_line_is_left_out_and_told() -> None:
    whole = line(seq=1) + line(seq=2)
    events = read_events(io.BytesIO(whole + line(seq=3)[:-20]))
    assert [event.seq for event in events] == [1, 2]
    assert events.cut_line == 3


def test_a_whole_last_line_without_its_newline_is_read() -> None:
    events = read_events(io.BytesIO(line(seq=1).rstrip()))
    assert [event.seq for event in events] == [1]
    assert events.cut_line is None


def test_blank_lines_are_skipped_but_counted() -> None:
    events = read_events(io.BytesIO(b"\n" + line(seq=1) + b"  \n"))
    assert [event.seq for event in events] == [1]
    assert events.lines == 3


def test_a_line_without_end_is_refused_instead_of_loaded() -> None:
    with pytest.raises(JsonLineError, match="longer than"):
        list(read_events(io.BytesIO(b"x" * (MAX_LINE_BYTES + 1))))


def test_a_gzip_file_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl.gz"
    path.write_bytes(gzip.compress(line(seq=1) + line(seq=2)))
    with open_lines(str(path)) as stream:
        assert [event.seq for event in read_events(stream)] == [1, 2]


def test_what_the_writer_wrote_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    sent = [TraceEvent(seq=n, entity_key=b"k", attributes={"a": "line\nbreak"}) for n in range(3)]
    for part in (sent[:1], sent[1:]):
        writer = EventWriter.to_path(str(path))
        writer.export(part)
        writer.close()
    with open_lines(str(path)) as stream:
        assert list(read_events(stream)) == sent


def test_the_writer_counts_what_it_could_not_write() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        writer = EventWriter(full)
        writer.export([TraceEvent(seq=1), TraceEvent(seq=2)])
    assert (writer.exported, writer.dropped) == (0, 2)
    assert "No space left" in writer.last_error


def test_a_line_error_pickles_with_its_fields() -> None:
    again = pickle.loads(pickle.dumps(JsonLineError("traces.jsonl", 7, "why")))
    assert (again.name, again.line, str(again)) == ("traces.jsonl", 7, "traces.jsonl, line 7: why")
