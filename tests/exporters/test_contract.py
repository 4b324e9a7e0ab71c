"""What every exporter promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_agents.exporters import EXPORTERS, Exporter, open_exporter
from beam_agents.proto import TraceEvent
from tests.exporters.collector import Collector

EVENTS = [
    TraceEvent(
        trace_id=bytes([1] * 16), span_id=bytes([n + 1] * 8), event_type=TraceEvent.LLM_CALL, start_ms=n, end_ms=n + 1
    )
    for n in range(5)
]
ODD_EVENTS = [
    TraceEvent(),
    TraceEvent(entity_key=b"\xff", seq=-1, start_ms=9, end_ms=3, event_type=77, attributes={"": "", "a": "\x00"}),
    TraceEvent(trace_id=b"short", span_id=b"", attributes={"gen_ai.usage.input_tokens": "many"}),
    TraceEvent(trace_id=bytes([1] * 16), span_id=bytes([1] * 8), start_ms=2**63 - 1, end_ms=-(2**63)),
    TraceEvent(
        trace_id=bytes([1] * 16),
        span_id=bytes([1] * 8),
        event_type=TraceEvent.LLM_CALL,
        attributes={"gen_ai.usage.input_tokens": "many", "beam_agents.billed": "true", "server.port": ""},
    ),
]


ONE_SCHEME_EACH = sorted({opener: scheme for scheme, opener in sorted(EXPORTERS.items(), reverse=True)}.values())


@pytest.fixture(params=ONE_SCHEME_EACH)
def exporter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Exporter]:
    with Collector() as collector:
        uris = {"jsonl": f"jsonl://{tmp_path / 'traces.jsonl'}", "http": collector.url}
        opened = open_exporter(uris[request.param])
        yield opened
        opened.close()


def test_it_is_an_exporter(exporter: Exporter) -> None:
    assert isinstance(exporter, Exporter)


def test_it_counts_what_was_taken(exporter: Exporter) -> None:
    exporter.export(EVENTS[:2])
    exporter.export(iter(EVENTS[2:]))
    assert exporter.flush()
    assert (exporter.exported, exporter.dropped, exporter.last_error) == (5, 0, "")


def test_odd_events_are_counted_and_never_raise(exporter: Exporter) -> None:
    exporter.export(ODD_EVENTS)
    exporter.close()
    assert exporter.exported + exporter.dropped == len(ODD_EVENTS)


def test_after_close_events_are_dropped_and_the_reason_is_told(exporter: Exporter) -> None:
    exporter.export(EVENTS[:1])
    exporter.close()
    exporter.close()
    exporter.export(EVENTS[1:])
    assert (exporter.exported, exporter.dropped) == (1, 4)
    assert exporter.last_error


def test_nothing_to_export_is_nothing(exporter: Exporter) -> None:
    exporter.export([])
    assert exporter.flush()
    assert (exporter.exported, exporter.dropped) == (0, 0)


@pytest.mark.parametrize("uri", ["", "traces.jsonl", "kafka://x", "jsonl:/x"])
def test_an_unknown_scheme_says_which_are_known(uri: str) -> None:
    with pytest.raises(ValueError, match="jsonl://"):
        open_exporter(uri)


def test_a_file_that_cannot_be_opened_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        open_exporter(f"jsonl://{tmp_path}/no/such/folder/traces.jsonl")
