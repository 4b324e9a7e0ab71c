"""A report as one self-contained page: it opens offline and asks no server for anything (extra `report`)."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import orjson

from beam_agents.report.activations import Activation
from beam_agents.report.contents import Report
from beam_agents.report.headline import headline
from beam_agents.report.html_parts import activation_html, section, table_html, tiles_html
from beam_agents.report.tables import comparison, tables
from beam_agents.report.words import clock_text

__all__ = ["comparison_html", "report_html"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
_LABELS = {
    "spend": "Spend of this run, and what it would have been without stored answers",
    "over-time": "Calls over time by how they ended",
    "latency-over-time": "Median and 95th percentile of the time of a call, over time",
    "latency": "Histogram of the time of a call",
    "circuits": "State of each endpoint's circuit over time",
}


def report_html(report: Report, *, title: str = "beam-agents report") -> str:
    """The page of one run.

    Raises:
        ImportError: when Plotly is not installed; the message names the extra.
    """
    charts = _charts()
    figures: dict[str, Any] = charts.report_charts(report)
    shown = {table.anchor: table for table in tables(report) if table.anchor not in ("slowest", "dearest")}
    parts = [
        section(
            anchor,
            heading,
            *(_chart(name, figures) for name in names),
            *(table_html(shown[t]) for t in own if t in shown),
        )
        for anchor, heading, names, own in _SECTIONS
        if any(name in figures for name in names) or any(name in shown for name in own)
    ]
    for anchor, heading, activations in (
        ("slowest", "Slowest activations", report.slowest),
        ("dearest", "Dearest activations", report.dearest),
    ):
        if activations:
            parts.append(section(anchor, heading, *_waterfalls(anchor, activations, figures, report)))
    return _page(title, _when(report), [_said(report), tiles_html(report), *parts, _notes(report)], figures)


def comparison_html(before: Report, after: Report, *, title: str = "beam-agents report: two runs") -> str:
    """The page of two runs side by side."""
    figures: dict[str, Any] = _charts().comparison_charts(before, after)
    sides = "".join(
        f"<div><h3>{name}: {escape(', '.join(report.sources)) or 'a run'}</h3>{_said(report)}</div>"
        for name, report in (("First", before), ("Second", after))
    )
    parts = [
        section("runs", "The runs", f'<div class="two">{sides}</div>'),
        section("compare", "Figures", table_html(comparison(before, after))),
        section("compare-spend", "Spend", _chart("compare-spend", figures)),
        section("compare-latency", "Time of a call", _chart("compare-latency", figures)),
    ]
    return _page(title, "", parts, figures)


_SECTIONS = (
    ("spend", "Spend", ("spend",), ("spend",)),
    ("saved", "Saved by stored answers", (), ("saved",)),
    ("models", "By model", (), ("models",)),
    ("over-time", "Calls over time", ("over-time",), ()),
    ("latency", "Latency and waiting", ("latency-over-time", "latency"), ("latency",)),
    ("circuits", "Circuit breakers", ("circuits",), ()),
    ("errors", "Calls that failed", (), ("errors",)),
    ("requests", "Requests that failed", (), ("requests",)),
    ("letters", "Dead letters", (), ("letters",)),
    ("schema", "Answers that broke their schema", (), ("schema",)),
    ("keys", "Heaviest keys", (), ("keys",)),
)


def _charts() -> Any:
    try:
        from beam_agents.report import charts
    except ImportError as error:
        raise ImportError(
            f"HTML reports need the extra `report`: pip install 'beam-agents[report]' ({error})"
        ) from error
    return charts


def _waterfalls(anchor: str, activations: Sequence[Activation], figures: dict[str, Any], report: Report) -> list[str]:
    told = []
    for number, activation in enumerate(activations):
        name = f"{anchor}-{number}"
        figures[name] = _charts().waterfall(activation)
        told.append(activation_html(activation, report.currency, _chart(name, figures, "Waterfall of its calls")))
    return told


def _chart(name: str, figures: Mapping[str, Any], label: str = "") -> str:
    if name not in figures:
        return ""
    said = escape(label or _LABELS.get(name, name))
    height = figures[name].layout.height
    return (
        f'<div class="chart" data-figure="{name}" role="img" aria-label="{said}" style="min-height:{height}px"></div>'
    )


def _said(report: Report) -> str:
    said = "".join(f"<dt>{escape(question)}</dt><dd>{escape(answer)}</dd>" for question, answer in headline(report))
    return f'<dl class="said">{said}</dl>'


def _when(report: Report) -> str:
    if report.first_ms is None:
        return "No calls."
    return f"{clock_text(report.first_ms)} to {clock_text(report.last_ms)}"


def _notes(report: Report) -> str:
    said = [
        *report.notes,
        f"Prices: {report.price_source}; {report.currency}, at the date of each call.",
        "Counts and sums are exact; percentiles are within 1 %. Times are UTC.",
        *(f"Read: {source}" for source in report.sources),
    ]
    return section("notes", "Notes", f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in said)}</ul>')


def _page(title: str, when: str, parts: Sequence[str], figures: Mapping[str, Any]) -> str:
    whole = "".join(parts)
    plotted = {name: orjson.loads(figure.to_json()) for name, figure in figures.items()}
    return _read("page.html").format(
        title=escape(title),
        policy=_POLICY,
        css=_read("page.css"),
        when=escape(when),
        links=_links(whole),
        parts=whole,
        figures=orjson.dumps(plotted).decode().replace("<", "\\u003c"),
        plotly=_plotly_packed(),
        js=_read("page.js"),
    )


def _links(whole: str) -> str:
    anchors = [part.split('"', 1)[0] for part in whole.split('<section id="')[1:]]
    return "".join(f'<a href="#{anchor}">{anchor.replace("-", " ").capitalize()}</a>' for anchor in anchors)


@cache
def _plotly_packed() -> str:
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


@cache
def _read(name: str) -> str:
    return (files("beam_agents.report") / "page" / name).read_text("utf-8")
