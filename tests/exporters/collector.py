"""A small OTLP/HTTP receiver that can be told to fail."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ["Collector"]


class Collector:
    """Listens on a free port of the loopback interface.

    Answers `status`, and holds every answer back until `gate` is set.
    """

    def __init__(self, *, status: int = 200) -> None:
        self.status = status
        self.gate = threading.Event()
        self.gate.set()
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}
        self.resource: dict[str, str] = {}
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resource = {pair.key: pair.value.string_value for pair in group.resource.attributes}
                for scope in group.scope_spans:
                    self.spans.extend(scope.spans)
        else:
            for part in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for measured in part.scope_metrics:
                    self.metrics |= {metric.name: metric for metric in measured.metrics}

    def _handler(collector) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.headers.append(dict(self.headers))
                collector.gate.wait()
                if collector.status == 200:
                    collector.take(self.path, body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
