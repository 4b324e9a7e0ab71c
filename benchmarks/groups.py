"""Every benchmark by name; each runs in a fresh process, so that none is warmed or burdened by another."""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.processes import environment, python
from benchmarks.rows import Found

__all__ = ["GROUPS", "measure_apart"]

GROUPS = {
    "startup": "benchmarks.startup",
    "facade": "benchmarks.facade_rows",
    "journal": "benchmarks.journal",
    "loopback": "benchmarks.loopback",
    "pipelines": "benchmarks.pipelines",
    "prism": "benchmarks.prism",
    "replay": "benchmarks.replay",
    "growth": "benchmarks.growth",
}
_LIMIT_S = 600


def measure_apart(name: str, *, quick: bool) -> Found:
    """What the benchmark finds in a process of its own. Raises `CalledProcessError` when it fails."""
    with tempfile.TemporaryDirectory() as directory:
        told = Path(directory) / "found.json"
        command = python("-m", "benchmarks.groups", name, "quick" if quick else "full", str(told))
        subprocess.run(command, check=True, timeout=_LIMIT_S, env=environment())
        return Found.from_json(json.loads(told.read_text()))


def _measure_here(name: str, size: str, told: str) -> None:
    logging.disable(logging.WARNING)  # Beam warns of optional parts that are not installed
    found: Found = importlib.import_module(GROUPS[name]).measured(size == "quick")
    Path(told).write_text(json.dumps(found.to_json()))


if __name__ == "__main__":
    _measure_here(*sys.argv[1:])
