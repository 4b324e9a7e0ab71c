"""Every format renders one run and two."""

from __future__ import annotations

import json

import pytest

from beam_agents.report.build import report_of
from beam_agents.report.formats import FORMATS, format_of
from beam_agents.report.gather import Gathering
from tests.report.events import sample_report

EMPTY = report_of(Gathering())


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_it_renders_one_run_and_two_and_nothing(name: str) -> None:
    report = sample_report()
    assert "customer-13" in FORMATS[name].one(report)
    assert "710" in FORMATS[name].two(report, EMPTY)
    assert FORMATS[name].one(EMPTY)
    assert FORMATS[name].two(EMPTY, EMPTY)


def test_two_runs_in_json_stand_beside_each_other() -> None:
    both = json.loads(FORMATS["json"].two(sample_report(), EMPTY))
    assert (both["first"]["calls"], both["second"]["calls"]) == (710, 0)


@pytest.mark.parametrize(
    ("path", "name"),
    [("a.html", "html"), ("a.HTM", "html"), ("b/c.json", "json"), ("x.md", "md"), ("x.markdown", "md"), ("-", "md")],
)  # fmt: skip
def test_the_name_of_a_file_asks_for_its_format(path: str, name: str) -> None:
    assert format_of(path) == name
