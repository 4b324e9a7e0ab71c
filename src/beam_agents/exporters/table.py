"""The table of exporters: one line each, by the scheme of the URI that opens it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from beam_agents.exporters.jsonl import EventWriter
from beam_agents.exporters.port import Exporter

__all__ = ["EXPORTERS", "open_exporter"]


def _jsonl(uri: str) -> Exporter:
    return EventWriter.to_path(uri.removeprefix("jsonl://"))


EXPORTERS: Final[Mapping[str, Callable[[str], Exporter]]] = {
    "jsonl": _jsonl,
}
"""Opens an exporter by URI, for each scheme."""


def open_exporter(uri: str) -> Exporter:
    """Open the exporter that `uri` names.

    `jsonl:///path/to/traces.jsonl` appends to a file.

    Raises:
        ValueError: for a scheme that is not in the table; the message lists those that are.
        OSError: when a file cannot be opened.
    """
    scheme, separator, _ = uri.partition("://")
    opener = EXPORTERS.get(scheme) if separator else None
    if opener is None:
        known = ", ".join(f"{name}://" for name in sorted(EXPORTERS))
        raise ValueError(f"no exporter for {uri!r}; its scheme must be one of {known}")
    return opener(uri)
