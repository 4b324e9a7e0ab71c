"""Spans and metrics, received by an OTLP endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam_agents import attributes as names
from beam_agents.exporters.otlp import OtlpExporter
from beam_agents.exporters.otlp_metrics import DURATION_BUCKETS_S, TOKEN_BUCKETS
from beam_agents.proto import TraceEvent
from tests.exporters.collector import Collector

TRACE, ROOT, CALL = bytes(range(1, 17)), bytes(range(1, 9)), bytes(range(2, 10))


def call(**attributes: str) -> TraceEvent:
    said = {
        names.GEN_AI_OPERATION_NAME: "chat",
        names.GEN_AI_PROVIDER_NAME: "openai",
        names.GEN_AI_REQUEST_MODEL: "gpt-4o-mini",
        names.GEN_AI_RESPONSE_FINISH_REASONS: '["stop"]',
        names.GEN_AI_USAGE_INPUT_TOKENS: "12",
        names.GEN_AI_USAGE_OUTPUT_TOKENS: "5",
        names.SERVER_ADDRESS: "api.openai.com",
        names.SERVER_PORT: "443",
        names.CACHE_HIT: "false",
        names.BILLED: "true",
        names.ATTEMPTS: "2",
        names.WAITED_MS: "250.5",
    }
    return TraceEvent(
        trace_id=TRACE,
        span_id=CALL,
        parent_span_id=ROOT,
        entity_key=b"customer-7",
        seq=3,
        step_index=1,
        event_type=TraceEvent.LLM_CALL,
        start_ms=1_000,
        end_ms=1_300,
        attributes=said | attributes,
    )


def activation(**attributes: str) -> TraceEvent:
    return TraceEvent(
        trace_id=TRACE,
        span_id=ROOT,
        entity_key=b"\xff",
        event_type=TraceEvent.ACTIVATION,
        start_ms=900,
        end_ms=1_400,
        attributes={names.OUTCOME: "committed"} | attributes,
    )


def sent(*events: TraceEvent) -> Collector:
    with Collector() as collector:
        exporter = OtlpExporter(collector.url)
        exporter.export(events)
        exporter.close()
        assert exporter.exported == len(events)
    return collector


def values(attributes: Any) -> dict[str, Any]:
    def read(value: Any) -> Any:
        kind = value.WhichOneof("value")
        found = getattr(value, kind)
        return [read(item) for item in found.values] if kind == "array_value" else found

    return {pair.key: read(pair.value) for pair in attributes}


def test_a_call_is_a_client_span_with_our_ids_and_real_times() -> None:
    (span,) = sent(call()).spans
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE, CALL, ROOT)
    assert (span.name, span.kind) == ("chat gpt-4o-mini", span.SPAN_KIND_CLIENT)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1_000_000_000, 1_300_000_000)
    assert span.status.code == span.status.STATUS_CODE_UNSET


def test_attributes_arrive_by_their_types() -> None:
    (span,) = sent(call()).spans
    said = values(span.attributes)
    assert said[names.GEN_AI_USAGE_INPUT_TOKENS] == 12
    assert said[names.GEN_AI_RESPONSE_FINISH_REASONS] == ["stop"]
    assert said[names.CACHE_HIT] is False
    assert said[names.WAITED_MS] == 250.5
    assert said[names.SERVER_PORT] == 443
    assert (said[names.ENTITY_KEY], said[names.SEQ], said[names.STEP_INDEX]) == ("customer-7", 3, 1)


@pytest.mark.parametrize(
    ("text", "arrives"),
    [("stop", ["stop"]), ('["stop","length"]', ["stop", "length"]), ("[stop", "[stop"), ("[1]", "[1]")],
)
def test_finish_reasons_are_an_array_or_stay_the_text_that_they_are(text: str, arrives: object) -> None:
    (span,) = sent(call(**{names.GEN_AI_RESPONSE_FINISH_REASONS: text})).spans
    assert values(span.attributes)[names.GEN_AI_RESPONSE_FINISH_REASONS] == arrives


def test_a_failed_call_has_error_status_and_type() -> None:
    (span,) = sent(call(**{names.ERROR_TYPE: "ServerError"})).spans
    assert span.status.code == span.status.STATUS_CODE_ERROR
    assert values(span.attributes)[names.ERROR_TYPE] == "ServerError"


def test_every_request_of_a_call_is_an_event_of_its_span_at_its_end() -> None:
    log = [
        {"id": "c:1", "outcome": "in_doubt", "error": "Lost"},
        {"id": "c:2", "outcome": "failed", "error": "ServerError", "status": 503, "ended_ms": 1_100},
        {"id": "c:3", "outcome": "answered", "waited_ms": 150},
    ]
    (span,) = sent(call(**{names.ATTEMPT_LOG: json.dumps(log)})).spans
    assert [(event.name, event.time_unix_nano // 1_000_000) for event in span.events] == [
        ("beam_agents.attempt", 1_000),
        ("beam_agents.attempt", 1_100),
        ("beam_agents.attempt", 1_300),
    ]
    assert [values(event.attributes) for event in span.events] == [
        {names.ATTEMPT_ID: "c:1", names.ATTEMPT_OUTCOME: "in_doubt", names.ERROR_TYPE: "Lost"},
        {
            names.ATTEMPT_ID: "c:2",
            names.ATTEMPT_OUTCOME: "failed",
            names.ERROR_TYPE: "ServerError",
            names.HTTP_STATUS: 503,
        },
        {names.ATTEMPT_ID: "c:3", names.ATTEMPT_OUTCOME: "answered", names.WAITED_MS: 150},
    ]


@pytest.mark.parametrize("log", ["", "[", "7", "[7]", "{}", '[{"ended_ms":"x"}]'])
def test_a_log_that_cannot_be_read_costs_its_events_and_not_the_span(log: str) -> None:
    (span,) = sent(call(**{names.ATTEMPT_LOG: log})).spans
    assert list(span.events) == []


def test_an_activation_is_the_root_of_its_calls() -> None:
    root, _ = sent(activation(), call()).spans
    assert (root.name, root.kind) == ("invoke_agent", root.SPAN_KIND_INTERNAL)
    assert (root.span_id, root.parent_span_id) == (ROOT, b"")
    assert values(root.attributes)[names.ENTITY_KEY] == '{"hex":"ff"}'


def test_a_named_agent_is_in_the_name_of_the_span() -> None:
    (root,) = sent(activation(**{names.GEN_AI_AGENT_NAME: "triage"})).spans
    assert root.name == "invoke_agent triage"


def test_the_resource_names_the_service_unless_the_environment_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(call()).resource["service.name"] == "beam-agents"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "claims")
    assert sent(call()).resource["service.name"] == "claims"


def test_headers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    assert {headers.get("x-team") for headers in sent(call()).headers} == {"blue"}


def test_metrics_count_duration_and_billed_tokens_in_the_conventions_buckets() -> None:
    metrics = sent(call(), call(**{names.GEN_AI_USAGE_INPUT_TOKENS: "0"})).metrics
    (duration,) = metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert (duration.count, duration.sum) == (2, 0.6)
    assert tuple(duration.explicit_bounds) == DURATION_BUCKETS_S
    assert metrics["gen_ai.client.operation.duration"].unit == "s"
    points = metrics["gen_ai.client.token.usage"].histogram.data_points
    sums = {values(point.attributes)["gen_ai.token.type"]: (point.count, point.sum) for point in points}
    assert sums == {"input": (2, 12), "output": (2, 10)}
    assert tuple(points[0].explicit_bounds) == TOKEN_BUCKETS
    assert metrics["gen_ai.client.token.usage"].unit == "{token}"


def test_a_replayed_call_records_no_client_metric() -> None:
    assert sent(call(**{names.CACHE_HIT: "true", names.BILLED: "false"})).metrics == {}


def test_the_tokens_of_a_stored_answer_are_never_added_up_as_used() -> None:
    (span,) = sent(call(**{names.CACHE_HIT: "true", names.BILLED: "false"})).spans
    said = values(span.attributes)
    assert not [name for name in said if name.startswith("gen_ai.usage.")]
    assert (said["beam_agents.stored.input_tokens"], said["beam_agents.stored.output_tokens"]) == (12, 5)


def test_metrics_can_be_turned_off_for_receivers_of_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    received = sent(call())
    assert (len(received.spans), received.metrics) == (1, {})


def test_a_failed_call_records_its_duration_by_error_and_no_tokens() -> None:
    metrics = sent(call(**{names.ERROR_TYPE: "ProviderTimeout", names.BILLED: "false"})).metrics
    (duration,) = metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert values(duration.attributes)[names.ERROR_TYPE] == "ProviderTimeout"
    assert "gen_ai.client.token.usage" not in metrics


def test_an_endpoint_that_refuses_costs_the_events_and_nothing_else() -> None:
    with Collector(status=400) as collector:
        exporter = OtlpExporter(collector.url)
        exporter.export([call(), call()])
        assert not exporter.flush()
        exporter.close()
    assert (exporter.exported, exporter.dropped) == (0, 2)
    assert "did not take" in exporter.last_error


def test_an_endpoint_that_is_not_there_costs_the_events_and_nothing_else() -> None:
    exporter = OtlpExporter("http://127.0.0.1:9", timeout_s=0.2)
    exporter.export([call()])
    exporter.close()
    assert (exporter.exported, exporter.dropped) == (0, 1)


def test_while_the_endpoint_is_stuck_export_returns_and_the_surplus_is_dropped() -> None:
    with Collector() as collector:
        collector.gate.clear()
        exporter = OtlpExporter(collector.url, max_pending=4)
        exporter.export([call()] * 10)
        assert exporter.dropped == 6
        assert "4 spans are waiting" in exporter.last_error
        collector.gate.set()
        exporter.close()
    assert (exporter.exported, exporter.dropped) == (4, 6)


def test_a_flush_that_takes_too_long_says_so() -> None:
    with Collector() as collector:
        collector.gate.clear()
        exporter = OtlpExporter(collector.url)
        exporter.export([call()])
        assert not exporter.flush(timeout_ms=50)
        collector.gate.set()
        exporter.close()
    assert exporter.exported == 1


def test_a_million_years_from_now_spoils_no_batch() -> None:
    late = call()
    late.end_ms = 2**62
    with Collector() as collector:
        exporter = OtlpExporter(collector.url)
        exporter.export([call(), late, call()])
        exporter.close()
    assert (exporter.exported, exporter.dropped) == (2, 1)
    assert "no times since the epoch" in exporter.last_error
