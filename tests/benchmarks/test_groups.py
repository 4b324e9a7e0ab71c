"""Every benchmark runs, at tiny sizes, and finds what its shape promises. No figure is held: they mean nothing here."""

from __future__ import annotations

import importlib
import json
import math

import pytest
from benchmarks.groups import GROUPS, measure_apart
from benchmarks.rows import Found

TARGETS = {"startup": 2, "facade": 5, "journal": 2, "loopback": 3, "pipelines": 3, "replay": 3, "growth": 4}


@pytest.mark.parametrize("name", TARGETS)
def test_a_benchmark_finds_rows_of_finite_figures_and_its_targets(name: str) -> None:
    found: Found = importlib.import_module(GROUPS[name]).measured(True)
    for row in found.rows:
        assert row.ours == 0 if row.unit == "calls" else row.ours > 0 or not row.unit, row
        assert row.peer is None or row.peer > 0, row
        assert math.isfinite(row.figure), row
        assert row.against or row.figure_is == "value", row
    assert sum(row.target is not None for row in found.rows) >= TARGETS[name]
    assert all(size > 0 and cost > 0 for curve in found.curves for size, cost in curve.points)
    assert Found.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_without_prism_the_row_is_left_out_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("PRISM", raising=False)
    found = importlib.import_module(GROUPS["prism"]).measured(True)
    assert not found.rows
    assert "Prism" in found.left_out[0]


def test_every_benchmark_has_a_smoke() -> None:
    assert GROUPS.keys() == {*TARGETS, "prism"}


def test_a_benchmark_in_a_process_of_its_own_hands_its_rows_over() -> None:
    assert [row.unit for row in measure_apart("journal", quick=True).rows] == ["µs of CPU"] * 3 + ["×"]
