"""Trace events over OTLP/HTTP, by the OpenTelemetry SDK's own exporters (extra `otlp`).

Spans go to `{endpoint}/v1/traces`, metrics to `{endpoint}/v1/metrics`. Headers, certificates, compression and
time-outs come from OpenTelemetry's own environment variables, such as `OTEL_EXPORTER_OTLP_HEADERS`;
`OTEL_METRICS_EXPORTER=none` sends no metrics, for receivers that take only traces.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from beam_agents.exporters.otlp_metrics import CallMetrics
from beam_agents.exporters.otlp_span import to_span
from beam_agents.proto import TraceEvent

__all__ = ["OtlpExporter"]

_logger = logging.getLogger(__name__)

MAX_PENDING: Final = 16_384
"""Spans waiting to be sent; more are dropped and counted."""


class _Account:
    """Counts what became of each event; thread-safe."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._limit = limit
        self._pending = 0
        self.exported = 0
        self.dropped = 0
        self.last_error = ""

    def admit(self) -> bool:
        with self._lock:
            if self._pending >= self._limit:
                self._drop(1, f"{self._limit} spans are waiting for the collector, the newest are dropped")
                return False
            self._pending += 1
            return True

    def refuse(self, why: str) -> None:
        with self._lock:
            self._drop(1, why)

    def settle(self, count: int, sent: bool) -> None:
        with self._lock:
            self._pending -= count
            if sent:
                self.exported += count
            else:
                self._drop(count, "the collector did not take a batch; the log of opentelemetry says why")

    def give_up(self) -> None:
        with self._lock:
            if self._pending:
                self._drop(self._pending, "closed before the collector took them")
            self._pending = 0

    @property
    def settled(self) -> bool:
        return not self._pending

    def _drop(self, count: int, why: str) -> None:
        self.dropped += count
        self.last_error = why


class _CountingExporter(SpanExporter):
    """Hands batches to the SDK's exporter and books the outcome."""

    def __init__(self, inner: SpanExporter, account: _Account) -> None:
        self._inner = inner
        self._account = account

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            self._account.settle(len(spans), result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


class OtlpExporter:
    """Sends trace events as spans, and the convention's client metrics, to an OTLP/HTTP endpoint.

    Batches are sent by threads of the SDK. When the endpoint is slow or away, events are dropped and counted
    rather than kept for ever; `export` neither waits nor raises.

    Args:
        endpoint: base URL such as `http://localhost:4318`, or `None` for what OpenTelemetry's environment says.
        service_name: the resource's `service.name`, unless the environment names one.
        max_pending: events held while they wait to be sent.
        timeout_s: time limit of one batch, its retries included; `None` for OpenTelemetry's own (10 s).
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        service_name: str = "beam-agents",
        max_pending: int = MAX_PENDING,
        timeout_s: float | None = None,
    ) -> None:
        self._account = _Account(max_pending)
        self._resource = _resource(service_name)
        self._closed = False
        self._processor = BatchSpanProcessor(
            _CountingExporter(OTLPSpanExporter(_signal(endpoint, "traces"), timeout=timeout_s), self._account),
            max_queue_size=max_pending,
            max_export_batch_size=min(512, max_pending),
        )
        self._meters = MeterProvider(_readers(endpoint, timeout_s), self._resource)
        self._metrics = CallMetrics(self._meters.get_meter("beam_agents"))

    @property
    def exported(self) -> int:
        """Events that the endpoint took."""
        return self._account.exported

    @property
    def dropped(self) -> int:
        """Events that were given up."""
        return self._account.dropped

    @property
    def last_error(self) -> str:
        """Why the latest event was given up; empty while all is well."""
        return self._account.last_error

    def export(self, events: Iterable[TraceEvent]) -> None:
        """Queue `events`; those that cannot be queued are counted, never raised."""
        for event in events:
            if self._closed:
                self._account.refuse("the exporter is closed")
                continue
            try:
                span = to_span(event, self._resource)
            except (ValueError, OverflowError) as error:
                self._account.refuse(str(error))
                continue
            self._metrics.record(event)
            if self._account.admit():
                self._processor.on_end(span)

    def flush(self, timeout_ms: int = 10_000) -> bool:
        """Send everything queued now; `False` when some of it was dropped or it took longer."""
        if self._closed:
            return False
        dropped_before = self.dropped
        sender = threading.Thread(target=self._send_all, name="beam-agents-otlp-flush", daemon=True)
        sender.start()
        sender.join(timeout_ms / 1000)
        return not sender.is_alive() and self._account.settled and self.dropped == dropped_before

    def close(self) -> None:
        """Send what is queued and release everything, within the SDK's own limit of 30 s a signal. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._processor.shutdown()  # type: ignore[no-untyped-call]
        self._account.give_up()
        self._meters.shutdown()

    def _send_all(self) -> None:
        self._processor.force_flush()
        try:
            self._meters.force_flush()
        except Exception as error:  # the SDK raises a bare Exception when a metric reader timed out
            _logger.warning("metrics were not sent: %s", error)


def _readers(endpoint: str | None, timeout_s: float | None) -> list[MetricReader]:
    if os.environ.get("OTEL_METRICS_EXPORTER", "").strip().lower() == "none":
        return []
    return [PeriodicExportingMetricReader(OTLPMetricExporter(_signal(endpoint, "metrics"), timeout=timeout_s))]


def _resource(service_name: str) -> Resource:
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        return resource.merge(Resource({"service.name": service_name}))
    return resource


def _signal(endpoint: str | None, signal: str) -> str | None:
    return None if endpoint is None else f"{endpoint.rstrip('/')}/v1/{signal}"
