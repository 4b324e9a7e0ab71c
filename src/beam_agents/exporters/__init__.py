"""Exporters of trace events: files of JSON lines, and OpenTelemetry over HTTP."""

from beam_agents.exporters.port import Exporter
from beam_agents.exporters.table import EXPORTERS, open_exporter, require_exporter

__all__ = ["EXPORTERS", "Exporter", "open_exporter", "require_exporter"]
