"""Puts the last run of all benchmarks into the docs: `python -m benchmarks.page [.bench/results.json]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.reporting import as_markdown
from benchmarks.rows import Found

__all__ = ["main", "with_run"]

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_BEGIN, _END = "<!-- run: written by python -m benchmarks.page -->\n", "<!-- end of run -->"


def with_run(page: str, told: dict[str, Any]) -> str:
    """`page` with the conditions and the table of a run between its two marks. Raises `ValueError` without them."""
    if _BEGIN not in page or _END not in page:
        raise ValueError(f"the page has no marks {_BEGIN.strip()} and {_END}")
    found = {name: Found.from_json(one) for name, one in told["groups"].items()}
    conditions = "; ".join(f"{name} {one}" for name, one in told["conditions"].items())
    before, rest = page.split(_BEGIN, 1)
    return f"{before}{_BEGIN}{conditions}.\n\n{as_markdown(found)}{_END}{rest.split(_END, 1)[1]}"


def main(arguments: list[str]) -> None:
    """Rewrite the page."""
    results = Path(arguments[0] if arguments else ".bench/results.json")
    PAGE.write_text(with_run(PAGE.read_text("utf-8"), json.loads(results.read_text("utf-8"))), "utf-8")
    print(f"{PAGE} tells of {results}")


if __name__ == "__main__":
    main(sys.argv[1:])
