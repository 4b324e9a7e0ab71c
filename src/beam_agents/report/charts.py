"""The charts of a report, as Plotly figures (extra `report`). Colours of text and grid are the page's."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from html import escape
from typing import Any, Final

import plotly.graph_objects as go

from beam_agents.report.activations import Activation
from beam_agents.report.contents import CircuitRow, Report
from beam_agents.report.words import duration_text, money_text, number_text

__all__ = ["comparison_charts", "report_charts", "waterfall"]

_BLUE, _GREEN, _AMBER, _RED, _VIOLET, _GREY = "#3b7dd8", "#2a9d76", "#c7861a", "#d64550", "#8465c9", "#8792a5"
_SPEND_COLOURS: Final = {"billed": _BLUE, "recovered": _GREEN, "discarded": _RED, "saved": _GREY}
_STATE_COLOURS: Final = {"closed": _GREEN, "half_open": _AMBER, "open": _RED}
_MARGIN: Final = {"l": 8, "r": 8, "t": 8, "b": 8}


def report_charts(report: Report) -> dict[str, go.Figure]:
    """Every chart that has something to show, by the anchor of its section."""
    charts = {"spend": _spend(report)} if report.spent.requests or report.saved.requests else {}
    if report.timeline:
        charts |= {"over-time": _calls_over_time(report), "latency-over-time": _latency_over_time(report)}
    if report.latency_bars:
        charts["latency"] = _latency(report)
    if report.circuits:
        charts["circuits"] = _circuits(report.circuits)
    return charts


def comparison_charts(before: Report, after: Report) -> dict[str, go.Figure]:
    """Spend and latency of two runs side by side."""
    unit = before.currency if _has_money(before) else "tokens"
    spend = _figure(barmode="stack", height=220, xaxis={"title": unit}, yaxis={"autorange": "reversed"})
    for name in _SPEND_COLOURS:
        amounts = [_amount(report, name) for report in (before, after)]
        spend.add_bar(name=name, y=["first", "second"], x=amounts, orientation="h", marker_color=_SPEND_COLOURS[name])
    latency = _figure(barmode="group", height=280, yaxis={"title": "seconds"})
    for label, report, colour in (("first", before, _GREY), ("second", after, _BLUE)):
        row = report.durations[0]
        values = [value and value / 1000 for value in (row.p50, row.p90, row.p95, row.p99)]
        latency.add_bar(name=label, x=["p50", "p90", "p95", "p99"], y=values, marker_color=colour)
    return {"compare-spend": spend, "compare-latency": latency}


def waterfall(activation: Activation) -> go.Figure:
    """The calls of one activation, one bar each, from its beginning."""
    bars = sorted(activation.bars, key=lambda bar: (bar.start_ms, bar.step_index))
    figure = _figure(
        height=70 + 30 * len(bars),
        showlegend=False,
        xaxis={"title": "seconds from the start", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "type": "category"},
    )
    figure.add_bar(
        y=[f"{number + 1}. {escape(bar.label) or 'call'}" for number, bar in enumerate(bars)],
        base=[(bar.start_ms - activation.start_ms) / 1000 for bar in bars],
        x=[max(bar.end_ms - bar.start_ms, activation.duration_ms * 0.004) / 1000 for bar in bars],
        orientation="h",
        marker_color=[_outcome_colour(bar.outcome) for bar in bars],
        text=[f"{escape(bar.outcome)}, {duration_text(bar.end_ms - bar.start_ms)}" for bar in bars],
        hovertext=[f"{number_text(bar.tokens)} tokens, waited {duration_text(bar.waited_ms)}" for bar in bars],
        hoverinfo="text",
        textposition="auto",
        textangle=0,
    )
    return figure


def _figure(**layout: Any) -> go.Figure:
    """Without Plotly's own template; the page brings its font and colours."""
    common: dict[str, Any] = {
        "template": "none",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": _MARGIN,
        "height": 300,
        "bargap": 0.12,
        "hovermode": "closest",
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "traceorder": "normal"},
    }
    figure = go.Figure(layout=common | layout)
    figure.update_xaxes(automargin=True, zeroline=False, tickangle=0, nticks=7)
    figure.update_yaxes(automargin=True, zeroline=False)
    return figure


def _amount(report: Report, name: str) -> float:
    tally = report.saved if name == "saved" else report.tally(name)
    return float(tally.money) if _has_money(report) else tally.tokens


def _has_money(report: Report) -> bool:
    return report.without_replay > 0


def _spend(report: Report) -> go.Figure:
    unit = report.currency if _has_money(report) else "tokens"
    figure = _figure(barmode="stack", height=200, xaxis={"title": unit}, yaxis={"autorange": "reversed"})
    for name, colour in _SPEND_COLOURS.items():
        amount = _amount(report, name)
        if not amount:
            continue
        shown = money_text(Decimal(str(amount)), report.currency) if _has_money(report) else number_text(int(amount))
        figure.add_bar(
            name=name,
            y=["this run", "without stored answers"],
            x=[0 if name == "saved" else amount, amount],
            orientation="h",
            marker_color=colour,
            text=["" if name == "saved" else shown, shown],
            hoverinfo="name+text",
            textposition="auto",
            insidetextanchor="middle",
            textangle=0,
        )
    return figure


def _calls_over_time(report: Report) -> go.Figure:
    figure = _figure(barmode="stack", xaxis={"type": "date"}, yaxis={"title": f"calls per {_slice(report)}"}, bargap=0)
    middle = [point.start_ms + report.slice_ms / 2 for point in report.timeline]
    for name, colour in (("answered", _BLUE), ("stored", _GREEN), ("failed", _RED)):
        counts = [getattr(point, name) for point in report.timeline]
        if any(counts):
            label = "from a store" if name == "stored" else name
            figure.add_bar(name=label, x=middle, y=counts, marker_color=colour, width=report.slice_ms)
    return figure


def _latency_over_time(report: Report) -> go.Figure:
    figure = _figure(xaxis={"type": "date"}, yaxis={"title": "seconds", "rangemode": "tozero"})
    middle = [point.start_ms + report.slice_ms / 2 for point in report.timeline]
    for name, colour in (("p50", _BLUE), ("p95", _VIOLET)):
        values = [getattr(point, name) for point in report.timeline]
        seconds = [value if value is None else round(value / 1000, 4) for value in values]
        figure.add_scatter(name=name, x=middle, y=seconds, mode="lines", line={"color": colour, "width": 2})
    return figure


def _latency(report: Report) -> go.Figure:
    bars = report.latency_bars
    figure = _figure(
        xaxis={"title": "time of a call, logarithmic", "tickangle": 0}, yaxis={"title": "calls"}, bargap=0.04
    )
    figure.add_bar(
        x=[f"{duration_text(low)} – {duration_text(high)}" for low, high, _ in bars],
        y=[count for _, _, count in bars],
        marker_color=_BLUE,
        name="calls",
    )
    every = max(1, len(bars) // 6)
    figure.update_xaxes(
        tickvals=list(range(0, len(bars), every)), ticktext=[duration_text(low) for low, _, _ in bars[::every]]
    )
    return figure


def _circuits(circuits: Sequence[CircuitRow]) -> go.Figure:
    figure = _figure(barmode="overlay", height=110 + 36 * len(circuits), xaxis={"type": "date"}, bargap=0.3)
    spans = [(row.endpoint, state, start, end) for row in circuits for state, start, end in _spans(row)]
    for state, colour in _STATE_COLOURS.items():
        own = [span for span in spans if span[1] == state]
        if own:
            figure.add_bar(
                name=state.replace("_", " "),
                y=[escape(endpoint) for endpoint, *_ in own],
                base=[start for _, _, start, _ in own],
                x=[end - start for _, _, start, end in own],
                orientation="h",
                marker_color=colour,
                hoverinfo="name+y",
            )
    return figure


def _spans(row: CircuitRow) -> list[tuple[str, int, int]]:
    """Neighbouring slices in the same worst state, joined."""
    spans: list[tuple[str, int, int]] = []
    for start, seen in row.slices:
        state = next((state for state in ("open", "half_open") if seen.get(state)), "closed")
        if spans and spans[-1][0] == state and spans[-1][2] == start:
            spans[-1] = (state, spans[-1][1], start + row.slice_ms)
        else:
            spans.append((state, start, start + row.slice_ms))
    return spans


def _outcome_colour(outcome: str) -> str:
    if outcome == "answered":
        return _BLUE
    return _GREEN if outcome.startswith("replayed") else _RED


def _slice(report: Report) -> str:
    return duration_text(report.slice_ms).removesuffix(" 0 s").removesuffix(".0 s") + (
        " s" if report.slice_ms < 60_000 and report.slice_ms % 1000 == 0 else ""
    )
