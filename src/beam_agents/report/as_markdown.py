"""A report, or two side by side, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from beam_agents.report.contents import Report
from beam_agents.report.headline import headline
from beam_agents.report.tables import Table, comparison, tables

__all__ = ["comparison_markdown", "report_markdown"]


def report_markdown(report: Report) -> str:
    """The report as Markdown tables; charts have no place here."""
    said = "\n".join(f"- **{question}**: {_escaped(answer)}" for question, answer in headline(report))
    parts = ["# beam-agents report", said]
    parts += [_section(table) for table in tables(report)]
    parts += [_notes(report)]
    return "\n\n".join(part for part in parts if part) + "\n"


def comparison_markdown(before: Report, after: Report) -> str:
    """Two runs side by side."""
    return f"# beam-agents report: two runs\n\n{_section(comparison(before, after))}\n"


def _section(table: Table) -> str:
    lines = [f"## {table.title}", "", _row(table.columns), _row("---:" if n else "---" for n in table.numeric)]
    return "\n".join([*lines, *(_row(map(_escaped, row)) for row in table.rows)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    special = str.maketrans({mark: f"\\{mark}" for mark in "\\|`*_<>[]"} | {"\n": " ", "\r": " "})
    return text.translate(special)


def _notes(report: Report) -> str:
    said: Sequence[str] = [
        *report.notes,
        f"Prices: {report.price_source}; {report.currency}, at the date of each call.",
    ]
    return "\n".join(f"- {_escaped(note)}" for note in said)
