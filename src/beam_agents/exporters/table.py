"""The table of exporters: one line each, by the scheme of the URI that opens it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

from beam_agents.exporters.jsonl import EventWriter
from beam_agents.exporters.port import Exporter

__all__ = ["EXPORTERS", "open_exporter", "require_exporter"]


def _jsonl(uri: str) -> Exporter:
    return EventWriter.to_path(uri.removeprefix("jsonl://"))


def _otlp(uri: str) -> Exporter:
    from beam_agents.exporters.otlp import OtlpExporter

    return OtlpExporter(uri)


EXPORTERS: Final[Mapping[str, Callable[[str], Exporter]]] = {
    "http": _otlp,
    "https": _otlp,
    "jsonl": _jsonl,
}
"""Opens an exporter by URI, for each scheme."""


def open_exporter(uri: str) -> Exporter:
    """Open the exporter that `uri` names.

    `jsonl:///path/to/traces.jsonl` appends to a file; `http://host:4318` sends to an OTLP/HTTP endpoint.

    Raises:
        ValueError: as `require_exporter`.
        OSError: when a file cannot be opened.
    """
    return require_exporter(uri)(uri)


def require_exporter(uri: str) -> Callable[[str], Exporter]:
    """What opens `uri`, found without opening it.

    Raises:
        ValueError: for a scheme that is not in the table, or whose extra is not installed. The message never
            shows the URI, which may hold a password.
    """
    scheme, separator, _ = uri.partition("://")
    opener = EXPORTERS.get(scheme) if separator else None
    if opener is None:
        known = ", ".join(f"{name}://" for name in sorted(EXPORTERS))
        named = f"the scheme {scheme!r}" if separator else "a URI without a scheme"
        raise ValueError(f"no exporter for {named}; it must be one of {known}")
    if opener is _otlp and not _otlp_installed():
        raise ValueError("OTLP needs the extra `otlp`: pip install 'beam-agents[otlp]'")
    return opener


def _otlp_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False
