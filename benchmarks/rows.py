"""What a benchmark finds: rows beside their peers, and curves over a growing size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

__all__ = ["Curve", "Found", "Row", "difference", "in_turn", "ratio", "slope", "value"]

FigureIs = Literal["ratio", "difference", "value"]


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement beside its peer.

    Attributes:
        what: what is done.
        unit: of `ours` and `peer`.
        ours, peer: medians over the rounds; `peer` is `None` where there is none.
        against: what it is compared with.
        figure: what the target is about.
        figure_is: `ratio` of ours to the peer, `difference` from it, or ours itself as `value`.
        target: the figure's limit; `None` for a row that is there for the table.
        at_least: whether the limit is a lower one.
        note: what else to know.
    """

    what: str
    unit: str
    ours: float
    peer: float | None
    against: str
    figure: float
    figure_is: FigureIs = "ratio"
    target: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figure is within its target."""
        if self.target is None:
            return True
        return self.figure >= self.target if self.at_least else self.figure <= self.target


@dataclass(frozen=True, slots=True)
class Curve:
    """A cost over a growing size: `(size, cost)` points, both on logarithmic axes."""

    name: str
    size: str
    unit: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """All that one benchmark found, and what it could not measure here, with the reason."""

    rows: tuple[Row, ...] = ()
    curves: tuple[Curve, ...] = ()
    left_out: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Rows and curves as JSON holds them."""
        return {
            "rows": [asdict(row) | {"holds": row.holds} for row in self.rows],
            "curves": [asdict(curve) for curve in self.curves],
            "left_out": list(self.left_out),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Found:
        """The inverse of `to_json`."""
        rows = [Row(**{name: one for name, one in row.items() if name != "holds"}) for row in told["rows"]]
        curves = [Curve(**{**curve, "points": tuple(map(tuple, curve["points"]))}) for curve in told["curves"]]
        return cls(tuple(rows), tuple(curves), tuple(told["left_out"]))


def in_turn(rounds: int, ways: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """What each way measures in each of `rounds`; in every other round the order is turned round."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        order = list(ways.items())
        for name, measure in order[:: -1 if number % 2 else 1]:
            found[name].append(measure())
    return found


def ratio(
    what: str,
    unit: str,
    ours: Sequence[float],
    peer: Sequence[float],
    against: str,
    target: float | None = None,
    *,
    at_least: bool = False,
    note: str = "",
) -> Row:
    """A row whose figure is the median over the rounds of ours divided by the peer's."""
    figure = median(mine / theirs for mine, theirs in zip(ours, peer, strict=True))
    return Row(what, unit, median(ours), median(peer), against, figure, "ratio", target, at_least, note)


def difference(
    what: str, unit: str, ours: Sequence[float], peer: Sequence[float], against: str, target: float, *, note: str = ""
) -> Row:
    """A row whose figure is the median over the rounds of ours less the peer's."""
    figure = median(mine - theirs for mine, theirs in zip(ours, peer, strict=True))
    return Row(what, unit, median(ours), median(peer), against, figure, "difference", target, note=note)


def value(
    what: str, unit: str, ours: float, target: float | None = None, *, at_least: bool = False, note: str = ""
) -> Row:
    """A row whose figure is ours itself."""
    return Row(what, unit, ours, None, "", ours, "value", target, at_least, note)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Exponent of the power law through the points: the least-squares line on logarithmic axes."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
