"""One run of the demo: the very command a user would type, in a process of its own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beam_agents.cli.complaint import Complaint

__all__ = ["Command", "Ran", "outputs_of", "run_and_kill", "run_to_end"]

_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Command:
    """A `beam-agents run` over the demo's tickets with its results in `folder`."""

    tickets: Path
    folder: Path
    endpoint: str
    model: str

    @property
    def output(self) -> Path:
        """Where the answers go."""
        return self.folder / "out.jsonl"

    @property
    def arguments(self) -> list[str]:
        """The arguments after the program's name."""
        return [
            "run",
            "beam_agents.cli.demo.triage:triage",
            f"--input={_short(self.tickets)}",
            "--key=customer",
            f"--model=openai:{self.model}",
            f"--base-url={self.endpoint}/v1",
            f"--output={_short(self.output)}",
            "--max-in-flight=4",
        ]

    def __str__(self) -> str:
        return " ".join(["beam-agents", *map(shlex.quote, self.arguments)])

    def start(self) -> subprocess.Popen[bytes]:
        """Start it; its progress goes to this terminal, its closing numbers to a pipe."""
        program = [sys.executable, "-m", "beam_agents.cli", *self.arguments, "--json"]
        return subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that came to its end: its own closing numbers, and how long it took."""

    closing: dict[str, Any]
    took_ms: float


def run_to_end(command: Command) -> Ran:
    """Run the command and read its closing numbers. Raises `Complaint` when it could not finish."""
    started = time.monotonic()  # noqa: TID251 - a person waits
    process = command.start()
    try:
        said, _ = process.communicate()
    finally:
        _end(process)
    if process.returncode not in (0, 1) or not said:
        raise Complaint(f"the demo's run ended with exit code {process.returncode}: {command}")
    return Ran(json.loads(said), (time.monotonic() - started) * 1000)  # noqa: TID251


def run_and_kill(command: Command, when: Callable[[], bool]) -> float:
    """Start the command and end it with SIGKILL as soon as `when` says so; returns how long it lived, in ms.

    Raises:
        Complaint: when it ended by itself before that, as it does when its deadlines pass.
    """
    started = time.monotonic()  # noqa: TID251
    process = command.start()
    try:
        while not when():
            if process.poll() is not None:
                raise Complaint("the demo's run was over before it could be killed; run the demo again")
            time.sleep(_LOOK_S)  # noqa: TID251
    finally:
        _end(process)
    return (time.monotonic() - started) * 1000  # noqa: TID251


def outputs_of(command: Command) -> dict[str, dict[str, Any]]:
    """The answers by ticket."""
    with command.output.open("rb") as lines:
        return {answer["id"]: answer for answer in map(json.loads, lines)}


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _short(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
