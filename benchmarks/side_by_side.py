"""Two ways of one piece of work, measured in turn in one run, so that a busy machine slows both alike."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

__all__ = ["Comparison", "compare", "report"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """CPU time of one piece of work, ours against the usual way.

    Attributes:
        name: what is done.
        ours_us, usual_us: microseconds of CPU for one run, the best round of each.
        ratio: the median over all rounds of ours divided by the usual way's.
        target: the ratio that ours may not exceed.
        usual: what it is compared with.
    """

    name: str
    usual: str
    ours_us: float
    usual_us: float
    ratio: float
    target: float

    @property
    def holds(self) -> bool:
        """Whether the ratio is within its target."""
        return self.ratio <= self.target


async def compare(
    name: str,
    ours: Callable[[], Awaitable[object]],
    usual: Callable[[], Awaitable[object]],
    *,
    against: str,
    target: float,
    rounds: int,
    runs: int,
) -> Comparison:
    """Runs both in turn, `runs` times in each of `rounds`, after one round that does not count."""
    pairs = [(await _cpu_us(ours, runs), await _cpu_us(usual, runs)) for _ in range(rounds + 1)][1:]
    return Comparison(
        name,
        against,
        min(mine for mine, _ in pairs),
        min(theirs for _, theirs in pairs),
        median(mine / theirs for mine, theirs in pairs),
        target,
    )


def report(title: str, comparisons: list[Comparison], json_path: Path | None) -> None:
    """Prints a table, and writes the figures as JSON where asked to."""
    table = Table(title=title)
    for column in ("what", "ours µs", "usual µs", "ratio", "target", "compared with"):
        table.add_column(column, justify="left" if column in ("what", "compared with") else "right")
    for one in comparisons:
        ratio = f"{one.ratio:.2f}" if one.holds else f"{one.ratio:.2f} (!)"
        table.add_row(one.name, f"{one.ours_us:.1f}", f"{one.usual_us:.1f}", ratio, f"{one.target:.2f}", one.usual)
    Console(width=120).print(table)
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(one) | {"holds": one.holds} for one in comparisons], indent=2) + "\n")


async def _cpu_us(work: Callable[[], Awaitable[object]], runs: int) -> float:
    await asyncio.sleep(0)
    began = time.thread_time_ns()
    for _ in range(runs):
        await work()
    return (time.thread_time_ns() - began) / runs / 1_000
