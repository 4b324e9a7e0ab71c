"""Jobs for Flink's mini cluster, each a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def lines(folder):
    """In-progress files included: without checkpoints a sink renames nothing until the end."""
    return [line for file in folder.rglob("*") if file.is_file() for line in file.read_text().splitlines()]


def run(job, *arguments):
    subprocess.run(
        [sys.executable, str(_HERE / job), *arguments],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(_HERE.parents[2] / "src"),
            "PROOF_KEY": "not-a-secret",
        },
        timeout=240,
        check=True,
    )
