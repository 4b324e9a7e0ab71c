"""Starts and ends worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def worker(action: str, uri: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `tests.journals.worker`; killed at the end, if it is still there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.journals.worker", action, uri],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that the process says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    """Send the process a line."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
