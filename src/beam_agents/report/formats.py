"""The formats of a report: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

import orjson

from beam_agents.report.as_html import comparison_html, report_html
from beam_agents.report.as_json import report_json
from beam_agents.report.as_markdown import comparison_markdown, report_markdown
from beam_agents.report.contents import Report

__all__ = ["FORMATS", "Format", "format_of"]


@dataclass(frozen=True, slots=True)
class Format:
    """How one run, and two runs side by side, become text. HTML raises `ImportError` without Plotly."""

    one: Callable[[Report], str]
    two: Callable[[Report, Report], str]


def _both_json(before: Report, after: Report) -> str:
    both = {"first": orjson.loads(report_json(before)), "second": orjson.loads(report_json(after))}
    return orjson.dumps(both, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()


FORMATS: Final[Mapping[str, Format]] = {
    "html": Format(report_html, comparison_html),
    "json": Format(report_json, _both_json),
    "md": Format(report_markdown, comparison_markdown),
}
"""By the name that the command line takes."""


def format_of(path: str, default: str = "md") -> str:
    """The format that the name of a file asks for; `default` where it asks for none."""
    suffix = PurePath(path).suffix.lower().removeprefix(".")
    known = {"htm": "html", "markdown": "md"}.get(suffix, suffix)
    return known if known in FORMATS else default
