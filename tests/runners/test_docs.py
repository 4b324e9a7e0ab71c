"""The pages on runners and tuning: their options are Beam's, and what was not run says so."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from beam_agents import AgentConfig
from beam_agents.beam.batch import unknown_arguments
from tests.runners.servers import PRISM_VERSION

REPOSITORY = Path(__file__).parents[2]
OF_THE_JOB_SERVER = {"--checkpointing_interval", "--max_bundle_size", "--max_bundle_time_mills"}
OF_THE_COMMAND = {
    *("--input", "--key", "--output", "--model", "--journal", "--job_port", "--web_port", "--service_port"),
    "--seconds",
}


def _page(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text()


def test_every_option_that_the_pages_name_is_one_of_beam() -> None:
    found = set(re.findall(r"--\w+(?:=[\w/:.]+)?", _page("runners.md") + _page("tuning.md")))
    named = [one for one in sorted(found) if one.partition("=")[0] not in OF_THE_JOB_SERVER | OF_THE_COMMAND]
    assert len(named) > 10
    assert unknown_arguments([one if "=" in one or one == "--streaming" else f"{one}=1" for one in named]) == []


@pytest.mark.parametrize("title", ["Flink by Beam", "Dataflow"])
def test_what_was_not_run_says_so(title: str) -> None:
    assert f"## {title} (not run by us)" in _page("runners.md")


def test_the_fields_of_the_tuning_page_are_there() -> None:
    named = re.findall(r"^\| `(\w+)` \| `AgentConfig`", _page("tuning.md"), re.MULTILINE)
    assert named
    assert {field.name for field in fields(AgentConfig)} >= set(named)


def test_one_version_of_prism_is_named_everywhere() -> None:
    assert f"PRISM_VERSION := {PRISM_VERSION}" in (REPOSITORY / "Makefile").read_text()
    assert f"cmd/prism@v{PRISM_VERSION}" in _page("runners.md")
