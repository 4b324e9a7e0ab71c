"""`report`, `doctor` and `demo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_agents.cli.local.proxy import CountingProxy
from tests.cli.running import AGENTS, Command, lines_of


def test_a_report_of_a_run(beam_agents: Command, tickets: Path, proxy: CountingProxy) -> None:
    ran = beam_agents(
        "run", f"{AGENTS}:sort", f"--input={tickets}", "--model=openai:m", f"--base-url={proxy.endpoint}/v1", "--quiet"
    )
    assert (ran.returncode, ran.stdout) == (0, "")
    text = beam_agents("report", "traces.jsonl", "errors.jsonl")
    assert "6 calls in 6 activations" in text.stdout
    told = json.loads(beam_agents("report", "traces.jsonl", "--format=json").stdout)
    assert told["calls"] == 6
    page = beam_agents("report", "traces.jsonl", "errors.jsonl", "-o", "report.html", "--compare", "traces.jsonl")
    assert page.returncode == 0, page.stderr
    assert (tickets.parent / "report.html").read_text().lstrip().lower().startswith("<!doctype html>")


def test_a_report_of_what_is_none(beam_agents: Command, tickets: Path) -> None:
    for arguments, said in (
        (["missing.jsonl"], "missing.jsonl cannot be read"),
        ([tickets, "--format=pdf"], "html, json, md"),
        ([AGENTS], "line 1"),
    ):
        ran = beam_agents("report", *arguments)
        assert said in ran.stderr
        assert ran.returncode == 2


def test_the_doctor_finds_a_working_machine(beam_agents: Command, stand_in: str) -> None:
    ran = beam_agents("doctor", "--model=openai:m", f"--base-url={stand_in}/v1")
    assert "All that is needed works" in ran.stdout, ran.stdout
    assert f"{stand_in} answers" in ran.stdout
    assert ran.returncode == 0


def test_the_doctor_names_what_does_not_work_with_a_remedy(beam_agents: Command) -> None:
    ran = beam_agents(
        "doctor", "--model=openai:m", "--base-url=http://127.0.0.1:9/v1", "--journal=sqlite:////no/such/j.db"
    )
    assert "Not working: journal, endpoint" in ran.stdout
    assert "check the address" in ran.stdout
    assert ran.returncode == 1


def test_the_demo_with_the_stand_in(beam_agents_process: Command, tmp_path: Path) -> None:
    ran = beam_agents_process("demo", "--scripted", "--folder=shown", "--price-in=1", "--price-out=2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "it is no model" in ran.stdout
    assert "✗" not in ran.stdout
    assert "at the prices given" in ran.stdout
    for act in ("1-plain", "2-faults", "3-killed"):
        assert len(lines_of(tmp_path / "shown" / act / "out.jsonl")) == 40


@pytest.mark.local_model
def test_the_demo_with_the_real_model(beam_agents_process: Command) -> None:
    ran = beam_agents_process("demo", "--folder=shown")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Gemma Terms of Use" in ran.stdout
    assert "✗" not in ran.stdout
    assert "Every answer fits the schema" in ran.stdout
