"""A run of all benchmarks as a table, as JSON and as plots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots
from rich.console import Console
from rich.table import Table

from benchmarks.rows import Curve, Found, Row

__all__ = ["as_markdown", "print_table", "write_all"]

_GREEN, _RED, _GREY = "#2e7d32", "#c62828", "#90a4ae"


def print_table(found: Mapping[str, Found]) -> None:
    """Every row on the terminal; `(!)` marks a missed target."""
    table = Table(title="Side by side")
    for column in ("what", "ours", "peer", "figure", "target", "beside"):
        table.add_column(column, justify="left" if column in ("what", "beside") else "right")
    for row in _rows(found):
        table.add_row(row.what, _amount(row.ours, row), _peer(row), _figure(row), _target(row), row.against or row.note)
    console = Console(width=170)
    console.print(table)
    for line in _left_out(found):
        console.print(f"Left out: {line}")


def as_markdown(found: Mapping[str, Found]) -> str:
    """The same table in Markdown."""
    lines = ["| what | ours | peer | figure | target | beside |", "|---|--:|--:|--:|--:|---|"]
    for row in _rows(found):
        beside = "; ".join(part for part in (row.against, row.note) if part)
        cells = (row.what, _amount(row.ours, row), _peer(row), _figure(row), _target(row), beside)
        lines.append("| " + " | ".join(cells) + " |")
    lines += [f"\nLeft out: {line}" for line in _left_out(found)]
    return "\n".join(lines) + "\n"


def write_all(found: Mapping[str, Found], facts: Mapping[str, object], folder: Path) -> None:
    """`results.json`, `results.md` and `plots.html` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {"conditions": dict(facts), "groups": {name: one.to_json() for name, one in found.items()}}
    (folder / "results.json").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "results.md").write_text(as_markdown(found), encoding="utf-8")
    figures = [_targets_figure(_rows(found)), *_curve_figures([c for one in found.values() for c in one.curves])]
    parts = [figure.to_html(full_html=False, include_plotlyjs=not place) for place, figure in enumerate(figures)]
    shown = ", ".join(f"{name} {one}" for name, one in facts.items())
    page = f"<!doctype html><meta charset=utf-8><title>Benchmarks</title><p>{shown}</p>" + "".join(parts)
    (folder / "plots.html").write_text(page, encoding="utf-8")


def _targets_figure(rows: list[Row]) -> go.Figure:
    """How much of each target is used up: 100% is the limit, less is better."""
    held = [row for row in rows if row.target]
    used = [100 * (_limit(row) / row.figure if row.at_least else row.figure / _limit(row)) for row in held]
    bars = go.Bar(
        y=[f"{row.what} ({row.figure_is})" for row in held],
        x=used,
        orientation="h",
        marker_color=[_GREEN if row.holds else _RED for row in held],
        text=[f"{_figure(row)} of {_target(row)}" for row in held],
    )
    figure = go.Figure(bars)
    figure.add_vline(x=100, line_dash="dash", line_color=_GREY)
    figure.update_layout(title="Targets: share used, the limit is 100%", height=60 + 34 * len(held), width=1200)
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure


def _curve_figures(curves: list[Curve]) -> list[go.Figure]:
    if not curves:
        return []
    figure = make_subplots(1, len(curves), subplot_titles=[f"cost of {one.name} over {one.size}" for one in curves])
    for place, one in enumerate(curves, 1):
        xs, ys = zip(*one.points, strict=True)
        figure.add_scatter(x=xs, y=ys, mode="lines+markers+text", text=[f"{y:.0f}" for y in ys], row=1, col=place)
        figure.update_xaxes(type="log", title=one.size, row=1, col=place)
        figure.update_yaxes(type="log", title=one.unit, dtick=1, range=_decades(ys), row=1, col=place)
    figure.update_layout(showlegend=False, height=420, width=330 * len(curves), title="Growth")
    figure.update_traces(textposition="top center", line_color=_GREEN)
    return [figure]


def _decades(costs: tuple[float, ...]) -> list[int]:
    """Whole decades around the costs, in powers of ten."""
    return [len(str(int(min(costs)))) - 1, len(str(int(max(costs))))]


def _rows(found: Mapping[str, Found]) -> list[Row]:
    return [row for one in found.values() for row in one.rows]


def _left_out(found: Mapping[str, Found]) -> list[str]:
    return [line for one in found.values() for line in one.left_out]


def _limit(row: Row) -> float:
    assert row.target is not None
    return row.target


def _amount(number: float, row: Row) -> str:
    digits = 0 if abs(number) >= 100 else 1 if abs(number) >= 10 else 2
    return f"{number:,.{digits}f} {row.unit}".strip()


def _peer(row: Row) -> str:
    return "" if row.peer is None else _amount(row.peer, row)


def _figure(row: Row) -> str:
    shown = {"ratio": f"{row.figure:.2f} ×", "difference": f"{row.figure:+.2f} {row.unit}"}
    return shown.get(row.figure_is, _amount(row.figure, row)) + ("" if row.holds else " (!)")


def _target(row: Row) -> str:
    if row.target is None:
        return ""
    return f"{'≥' if row.at_least else '≤'} {row.target:,.6g}"
