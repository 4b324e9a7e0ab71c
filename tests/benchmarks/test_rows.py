"""Ratios, slopes, targets and what is written of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.page import PAGE, with_run
from benchmarks.reporting import as_markdown, write_all
from benchmarks.rows import Curve, Found, difference, in_turn, ratio, slope, value


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    row = ratio("work", "s", [2.0, 30.0, 4.0], [1.0, 10.0, 4.0], "peer", 2.0)
    assert (row.ours, row.peer, row.figure) == (4.0, 4.0, 2.0)
    assert row.holds


@pytest.mark.parametrize(("figure", "at_least", "holds"), [(1.9, False, True), (2.1, False, False), (2.1, True, True)])
def test_a_target_is_held_from_its_side(figure: float, at_least: bool, holds: bool) -> None:
    assert value("work", "s", figure, 2.0, at_least=at_least).holds is holds


def test_a_difference_is_the_median_of_the_rounds_differences() -> None:
    assert difference("work", "s", [3.0, 5.0, 9.0], [1.0, 4.0, 2.0], "peer", 2.0).figure == 2.0


def test_a_slope_is_the_exponent_of_the_power_law() -> None:
    assert slope([(n, 7 * n**1.25) for n in (10, 100, 5_000)]) == pytest.approx(1.25)


def test_the_order_is_turned_round_in_every_other_round() -> None:
    seen: list[str] = []

    def way(name: str) -> float:
        seen.append(name)
        return len(seen)

    found = in_turn(2, {"a": lambda: way("a"), "b": lambda: way("b")})
    assert seen == ["a", "b", "b", "a"]
    assert found == {"a": [1, 4], "b": [2, 3]}


def test_a_missed_target_is_marked_and_everything_is_written(tmp_path: Path) -> None:
    missed = ratio("slow work", "s", [3.0], [1.0], "peer", 2.0)
    found = {"one": Found((missed,), (Curve("a key", "keys", "µs", ((10, 5), (100, 7))),), ("no part",))}
    write_all(found, {"cores": "2"}, tmp_path)
    assert "| slow work | 3.00 s | 1.00 s | 3.00 × (!) | ≤ 2 | peer |" in as_markdown(found)
    assert "Left out: no part" in (tmp_path / "results.md").read_text(encoding="utf-8")
    told = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert told["conditions"] == {"cores": "2"}
    assert told["groups"]["one"]["rows"][0]["holds"] is False
    assert "plotly" in (tmp_path / "plots.html").read_text(encoding="utf-8").lower()


def test_the_command_writes_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", "journal", "--out", str(tmp_path)]) == 0
    assert "intent and answer" in capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["groups"].keys() == {"journal"}


def test_a_run_takes_the_place_of_the_one_before_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    rows = Found((value("work", "s", 2.0),))
    for load in ("0.1", "0.2"):
        page = with_run(page, {"conditions": {"cores": "2", "load": load}, "groups": {"a": rows.to_json()}})
    assert "cores 2; load 0.2.\n\n| what |" in page
    assert "load 0.1" not in page
    assert page.count("| work | 2.00 s |") == 1
    assert page.startswith("# Performance\n")


def test_a_page_without_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no marks"):
        with_run("# Performance\n", {"conditions": {}, "groups": {}})
