"""The table of results, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from tests.chaos.rounds import Result

__all__ = ["summed", "table"]

_LARGEST = ("longest_flight_s",)
_COLUMNS = {
    "row": "row",
    "runs": "runs",
    "kills": "kills",
    "events": "events",
    "calls": "calls",
    "requests": "requests",
    "answered": "answered",
    "repeats": "repeats",
    "outside": "of them outside flight",
    "in_doubt": "in doubt",
    "drift": "drift",
    "note": "",
}


def summed(results: Iterable[Result]) -> list[Result]:
    """One line for each row: the sums over its rounds."""
    lines: dict[str, Result] = {}
    for result in results:
        known = lines.get(result.row)
        lines[result.row] = result if known is None else _added(known, result)
    return list(lines.values())


def table(lines: Sequence[Result]) -> str:
    """Markdown, with columns that line up."""
    cells = [list(_COLUMNS.values())]
    cells += [[_shown(getattr(line, name)) for name in _COLUMNS] for line in lines]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_COLUMNS))]
    drawn = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(drawn)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _added(a: Result, b: Result) -> Result:
    sums: dict[str, object] = {}
    for field in fields(Result):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if field.name in _LARGEST:
            sums[field.name] = max(one, other)
        elif isinstance(one, (int, float)) or field.name == "problems":
            sums[field.name] = one + other
    return replace(a, **sums)  # type: ignore[arg-type]
