"""The command line, and a scripted model for it to ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from beam_agents.cli.app import app
from beam_agents.cli.invocation import Invocation
from beam_agents.cli.local.child import ServerChild
from beam_agents.cli.local.proxy import CountingProxy

REPO = Path(__file__).parents[2]
AGENTS = REPO / "tests" / "cli" / "agents" / "sorting.py"
LIMIT_S = 400


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("stand-in") / "log"
    with ServerChild("beam_agents.cli.local.scripted_server", [], log=log) as child:
        yield child.endpoint


@pytest.fixture
def proxy(stand_in: str) -> Iterator[CountingProxy]:
    with CountingProxy(stand_in) as counting:
        yield counting


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    texts = ["my invoice is wrong", "it crashes", "how do I export?", "I love it", "I cannot log in", "another error"]
    path = tmp_path / "tickets.jsonl"
    path.write_text("".join(json.dumps({"who": f"c{at % 3}", "text": text}) + "\n" for at, text in enumerate(texts)))
    return path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Ended]


@pytest.fixture
def beam_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `beam-agents ARGS` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)

    def run(*args: Any, stdin: str = "") -> Ended:
        given, _, to_beam = (" ".join(map(str, args))).partition(" -- ")
        ended = CliRunner().invoke(app, given.split(), input=stdin, obj=Invocation(tuple(to_beam.split())))
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def beam_agents_process(tmp_path: Path) -> Command:
    """Runs `beam-agents ARGS` in a process of its own, in a folder of its own."""

    def run(*args: Any, stdin: str = "") -> Ended:
        command = command_line(*args)
        ended = subprocess.run(
            command, cwd=tmp_path, input=stdin, capture_output=True, text=True, timeout=LIMIT_S, env=environment()
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


def command_line(*args: Any) -> list[str]:
    return [sys.executable, "-m", "beam_agents.cli", *map(str, args)]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "BEAM_AGENTS_"))}
    return {**kept, "PYTHONPATH": str(REPO / "src"), "COLUMNS": "200"}


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]
