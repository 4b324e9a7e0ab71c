"""`ExportTraces`: trace events to an exporter, without ever holding up or failing the pipeline."""

from __future__ import annotations

import atexit
import threading
from dataclasses import dataclass
from typing import Any, Final

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_agents.exporters import Exporter, open_exporter, require_exporter
from beam_agents.proto import TraceEvent

__all__ = ["ExportTraces", "close_exporters"]

_FLUSH_MS: Final = 2_000
_COUNTED: Final = ("exported", "dropped")


@dataclass(slots=True)
class _Shared:
    """The exporter of one URI in this process, and how much of its counts is already in Beam's metrics."""

    exporter: Exporter
    told: dict[str, int]


_shared: dict[str, _Shared] = {}
_lock: Final = threading.Lock()


class ExportTraces(beam.PTransform):  # type: ignore[misc]
    """Sends the `TraceEvent`s of `RunAgent(...).traces` to an exporter and puts nothing out.

    A reshuffle stands before it, so that only committed events are sent, and a slow endpoint holds back no
    agent. Delivery is at least once: a retried bundle sends its events again, with the same trace and span
    ids. What the endpoint does not take is dropped and counted, never raised; the end of a bundle waits for it
    at most 2 s. The counters `traces_exported` and `traces_dropped` lag by what is on its way just then.

    Args:
        uri: as for `beam_agents.exporters.open_exporter`, such as `http://collector:4318`.

    Raises:
        ValueError: when no exporter has such a URI, or its extra is not installed.
        OSError: on the worker, when a file cannot be opened.
    """

    def __init__(self, uri: str) -> None:
        super().__init__()
        require_exporter(uri)
        self._uri = uri

    def expand(self, traces: beam.PCollection[TraceEvent]) -> beam.PCollection[Any]:
        return traces | "Committed" >> beam.Reshuffle() | "Send" >> beam.ParDo(_ExportDoFn(self._uri))

    def display_data(self) -> dict[str, Any]:
        return {"exporter": self._uri.partition("://")[0]}


class _ExportDoFn(beam.DoFn):  # type: ignore[misc]
    def __init__(self, uri: str) -> None:
        self._uri = uri

    def process(self, event: TraceEvent) -> None:
        _exporter(self._uri).exporter.export([event])

    def finish_bundle(self) -> None:
        shared = _exporter(self._uri)
        shared.exporter.flush(_FLUSH_MS)
        with _lock:
            for name in _COUNTED:
                count = getattr(shared.exporter, name)
                Metrics.counter("beam_agents", f"traces_{name}").inc(count - shared.told[name])
                shared.told[name] = count


def close_exporters() -> None:
    """Send what is queued in this process, and close its exporters; the next event opens them again.

    Runs by itself when the process ends.
    """
    with _lock:
        closing = list(_shared.values())
        _shared.clear()
    for shared in closing:
        shared.exporter.close()


def _exporter(uri: str) -> _Shared:
    with _lock:
        found = _shared.get(uri)
        if found is None:
            found = _shared[uri] = _Shared(open_exporter(uri), dict.fromkeys(_COUNTED, 0))
        return found


atexit.register(close_exporters)
