"""Pieces of the HTML page. Every text from a trace is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from beam_agents.report.activations import Activation
from beam_agents.report.contents import Report
from beam_agents.report.tables import Table
from beam_agents.report.words import clock_text, duration_text, key_text, money_text, number_text, share_text

__all__ = ["activation_html", "section", "table_html", "tiles_html"]


def section(anchor: str, heading: str, *parts: str) -> str:
    """A titled section that links can name."""
    title = f'<h2 id="{anchor}-title">{escape(heading)}</h2>'
    return f'<section id="{anchor}" aria-labelledby="{anchor}-title">{title}{"".join(parts)}</section>'


def table_html(table: Table) -> str:
    """A table that scrolls sideways on its own where the page is narrow; its first column heads the rows."""
    head = "".join(
        f'<th scope="col"{_right(number)}>{escape(name)}</th>' if name else "<td></td>"
        for name, number in zip(table.columns, table.numeric, strict=True)
    )
    rows = "".join(f"<tr>{_cells(row, table.numeric)}</tr>" for row in table.rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}, table">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def activation_html(activation: Activation, currency: str, chart: str) -> str:
    """One activation, folded; its waterfall inside."""
    facts = (
        f"seq {activation.seq}",
        duration_text(activation.duration_ms),
        f"{number_text(activation.calls)} calls",
        f"{number_text(activation.tokens)} tokens",
        money_text(activation.money, currency),
        activation.error or activation.outcome.replace("_", " ") or "outcome unknown",
    )
    told = "".join(f"<span>{escape(fact)}</span>" for fact in facts)
    key = escape(key_text(activation.entity_key)) or "(empty key)"
    surplus = activation.calls - len(activation.bars)
    more = f"; the first {len(activation.bars)} calls are shown, {surplus} more are not" if surplus else ""
    began = f"Began {clock_text(activation.start_ms)}, trace {activation.trace_id.hex() or 'unknown'}{more}"
    return (
        f'<details class="activation"><summary><b>{key}</b>{told}</summary><p class="when">{began}</p>{chart}</details>'
    )


def tiles_html(report: Report) -> str:
    """The handful of figures that one looks at first."""
    currency, spent, saved = report.currency, report.spent, report.saved
    doubt, wasted = report.tally("in_doubt").requests, report.tally("discarded")
    priced = bool(report.without_replay)
    tiles = [
        ("Spent", money_text(spent.money, currency) if priced else "–", f"{number_text(spent.tokens)} tokens", ""),
        (
            "Saved by stored answers",
            money_text(saved.money, currency) if priced else "–",
            f"{number_text(saved.requests)} requests",
            "good" if saved.requests else "",
        ),
        (
            "Bill without them",
            money_text(report.without_replay, currency) if priced else "–",
            f"{number_text(spent.tokens + saved.tokens)} tokens",
            "",
        ),
        ("Calls", number_text(report.calls), f"{number_text(report.requests)} requests on the wire", ""),
        (
            "Failed calls",
            number_text(report.failed),
            f"{share_text(report.failed, report.calls)} of calls",
            "bad" if report.failed else "",
        ),
        (
            "Dead letters",
            number_text(report.dead_letters),
            f"{money_text(wasted.money, currency)} discarded",
            "bad" if report.dead_letters else "",
        ),
        ("In doubt", number_text(doubt), "requests, perhaps charged", "warn" if doubt else ""),
        ("Median call", duration_text(report.durations[0].p50), f"95 %: {duration_text(report.durations[0].p95)}", ""),
    ]
    return f'<dl class="tiles">{"".join(_tile(*tile) for tile in tiles)}</dl>'


def _tile(name: str, value: str, more: str, tone: str) -> str:
    figure = f'<dd class="{tone}">{escape(value)}</dd><dd class="more">{escape(more)}</dd>'
    return f'<div class="tile"><dt>{escape(name)}</dt>{figure}</div>'


def _cells(row: Sequence[str], numeric: Sequence[bool]) -> str:
    cells = list(zip(row, numeric, strict=True))
    first = f'<th scope="row">{escape(cells[0][0])}</th>'
    return first + "".join(f"<td{_right(number)}>{escape(text)}</td>" for text, number in cells[1:])


def _right(number: bool) -> str:
    return ' class="n"' if number else ""
