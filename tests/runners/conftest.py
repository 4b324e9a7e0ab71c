"""Rounds for tests, and the table of what they came to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.runners.account import Account
from tests.runners.round import Round
from tests.runners.shape import Shape

_COLUMNS = (
    *("row", "transform", "runs", "outputs", "dead_letters", "exact", "seq_gapless", "wrong_places", "requests"),
    *("billed", "recovered", "discarded", "failed", "in_doubt", "replayed", "repeats", "unexplained", "drift"),
    *("open_bundles", "dropped", "s"),
)
_TABLE = Path(__file__).parents[2] / ".parts" / "runners.json"


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[Shape], Round]]:
    """Starts rounds; everything that they started is dead when the test is over."""
    with ExitStack() as rounds:
        yield lambda shape: rounds.enter_context(Round(tmp_path, shape))


@pytest.fixture
def settle(request: pytest.FixtureRequest) -> Callable[[Round], Account]:
    """The account of a round, noted for the table."""
    started = time.monotonic()

    def _settle(round_: Round) -> Account:
        account = round_.account()
        found = asdict(account)
        row = {"row": _row_of(request.node), "transform": round_.shape.transform, "runs": round_.runs, **found}
        row["s"] = round(time.monotonic() - started)
        request.node.user_properties.append(("row", row | found.pop("classes")))
        return account

    return _settle


def _row_of(test: Any) -> str:
    """What the test does, and on which runner: Prism, where it names none."""
    way = getattr(test, "callspec", None) and test.callspec.params.get("way")
    return f"{way or 'Prism'}: {test.originalname.removeprefix('test_').replace('_', ' ')}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table, and keep it as JSON."""
    reports = [one for found in terminalreporter.stats.values() for one in found if getattr(one, "when", "") == "call"]
    rows = [row for report in reports for name, row in report.user_properties if name == "row"]
    if not rows:
        return
    rows.sort(key=lambda row: (row["row"], row["transform"]))
    _TABLE.parent.mkdir(exist_ok=True)
    _TABLE.write_text(json.dumps(rows, indent=1))
    cells = [list(_COLUMNS), *([str(row.get(column, 0)) for column in _COLUMNS] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(_COLUMNS))]
    terminalreporter.section("runners")
    for line in cells:
        terminalreporter.line("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
