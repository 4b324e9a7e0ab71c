"""Every command of the page on the command line runs, from top to bottom, and says what the page shows."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cli.running import Command
from tests.docs.test_examples import REPO

PAGE = (REPO / "docs" / "command-line.md").read_text("utf-8")
DEAD_LETTER = '{"id": "T-0", "customer": "oak"}\n'
ONE_FAILED = 1


@dataclass(frozen=True)
class Shown:
    """A command of the page, without `beam-agents`, and what the page shows of its output."""

    arguments: tuple[str, ...]
    output: tuple[str, ...]


def shown_commands(page: str) -> list[Shown]:
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for part in block.replace("\\\n", " ").split("$ ")[1:]:
            command, *output = part.rstrip().splitlines()
            name, *arguments = shlex.split(command)
            assert name == "beam-agents"
            found.append(Shown(tuple(arguments), tuple(output)))
    return found


COMMANDS = shown_commands(PAGE)


def expected_code(arguments: tuple[str, ...]) -> int:
    """The input holds one event without a text, which becomes a dead letter, also when it is run again."""
    return ONE_FAILED if arguments[0] == "run" else 0


def test_the_page_shows_every_command() -> None:
    shown = {command.arguments[0] for command in COMMANDS}
    assert shown == {"demo", "doctor", "journal", "replay", "report", "run", "schema"}


def test_the_commands_do_what_the_page_shows(beam_agents_process: Command, tmp_path: Path, stand_in: str) -> None:
    shutil.copytree(REPO / "examples", tmp_path / "examples")
    (tmp_path / "events.jsonl").write_text((REPO / "examples" / "tickets.jsonl").read_text() + DEAD_LETTER)
    for command in COMMANDS:
        arguments = list(command.arguments)
        if arguments[0] == "demo":
            continue  # has tests of its own: it starts a model
        if arguments[0] in ("run", "doctor"):
            arguments.append(f"--base-url={stand_in}/v1")
        ended = beam_agents_process(*arguments)
        assert ended.returncode == expected_code(command.arguments), (arguments, ended.stdout, ended.stderr)
        missing = [line for line in command.output if line not in ended.stdout + ended.stderr]
        assert missing == [], (arguments, ended.stdout, ended.stderr)
