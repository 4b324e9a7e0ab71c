"""What a report says: plain frozen values, the same for every format."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from beam_agents.report.activations import Activation
from beam_agents.report.problems import Problem
from beam_agents.report.tally import Tally

__all__ = ["CircuitRow", "DurationRow", "KeyRow", "ModelRow", "Report", "SavedRow", "SlicePoint", "SpendRow"]


@dataclass(frozen=True, slots=True)
class SpendRow:
    """One class of spend."""

    spend: str
    tally: Tally


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model: what was paid for, what failed, what is in doubt. `priced` is false where no price is known."""

    model: str
    paid: Tally
    failed: int
    in_doubt: int
    priced: bool


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One of the heaviest entity keys; its sums may lack what it spent before it was tracked."""

    key: str
    calls: int
    tokens: int
    money: Decimal


@dataclass(frozen=True, slots=True)
class SavedRow:
    """What answers of one store saved."""

    store: str
    tally: Tally


@dataclass(frozen=True, slots=True)
class DurationRow:
    """Percentiles in milliseconds, within 1 %; `None` without values."""

    what: str
    count: int
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    greatest: float | None
    mean: float | None


@dataclass(frozen=True, slots=True)
class SlicePoint:
    """The calls that ended in one slice of time."""

    start_ms: int
    answered: int
    stored: int
    failed: int
    requests: int
    tokens: int
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class CircuitRow:
    """Share of calls that saw the circuit of an endpoint closed, half open or open, by slice of time."""

    endpoint: str
    slice_ms: int
    slices: list[tuple[int, dict[str, int]]]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run came to.

    Attributes:
        sources: the files, with what was wrong with them.
        currency, price_source: unit of all money, and where prices come from.
        without_replay: the known money spent and saved together.
        keys_exact: false where there were more keys than are tracked exactly.
    """

    sources: list[str]
    notes: list[str]
    currency: str
    price_source: str
    first_ms: int | None
    last_ms: int | None
    calls: int
    answered: int
    stored: int
    failed: int
    requests: int
    committed: int
    dead_letters: int
    spent: Tally
    saved: Tally
    without_replay: Decimal
    spend: list[SpendRow]
    models: list[ModelRow]
    keys: list[KeyRow]
    keys_exact: bool
    saved_by: list[SavedRow]
    durations: list[DurationRow]
    latency_bars: list[tuple[float, float, int]]
    slice_ms: int
    timeline: list[SlicePoint]
    circuits: list[CircuitRow]
    errors: list[Problem]
    failed_requests: list[Problem]
    letters: list[Problem]
    schema_failures: list[Problem]
    slowest: list[Activation] = field(default_factory=list)
    dearest: list[Activation] = field(default_factory=list)

    def tally(self, spend: str) -> Tally:
        """The sum of one class of spend."""
        return next((row.tally for row in self.spend if row.spend == spend), Tally())

    @property
    def unpriced_models(self) -> list[str]:
        """Models with tokens but without a known price."""
        return [row.model for row in self.models if not row.priced]
