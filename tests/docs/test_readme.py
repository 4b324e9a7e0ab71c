"""The README shows the example that runs."""

from __future__ import annotations

from pathlib import Path

from beam_agents.cli.local.proxy import CountingProxy
from tests.cli.running import Command, lines_of
from tests.docs.test_examples import REPO, examples

EXAMPLE = REPO / "examples" / "triage.py"


def test_the_agent_of_the_readme_is_the_example() -> None:
    assert examples(REPO / "README.md")[0].code == EXAMPLE.read_text()


def test_the_example_runs(beam_agents: Command, proxy: CountingProxy, tmp_path: Path) -> None:
    tickets = REPO / "examples" / "tickets.jsonl"
    where = [f"--input={tickets}", "--key=customer", "--model=openai:m", f"--base-url={proxy.endpoint}/v1", "--quiet"]
    assert beam_agents("run", f"{EXAMPLE}:triage", *where).returncode == 0
    assert len(lines_of(tmp_path / "out.jsonl")) == 12
    assert proxy.count.requests == 12
