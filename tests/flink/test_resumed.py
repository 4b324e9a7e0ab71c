"""A job goes on from a checkpoint that cut a bundle in two. Runs where PyFlink and Java are installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.flink.processes import start, wait_until

EVENTS = 100
HERE = Path(__file__).parent


def job(folder, *resumed_from):
    return start(
        "job",
        [sys.executable, str(HERE / "jobs" / "resumed_job.py"), str(folder), str(EVENTS), *resumed_from],
        log=folder / "job.log",
        limit_s=200,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(HERE.parents[1] / "src"),
            "PROOF_KEY": "not-a-secret",
        },
    )


def lines(file):
    return set(file.read_text().splitlines()) if file.exists() else set()


def checkpoints(folder):
    found = folder.glob("checkpoints/*/chk-*/_metadata")
    return sorted(found, key=lambda path: int(path.parent.name.removeprefix("chk-")))


def answered(folder):
    return {line for file in folder.glob("out/*/*part*") for line in lines(file)}


def test_every_event_of_the_checkpoint_is_answered_though_no_other_comes(tmp_path):
    first = job(tmp_path)
    try:
        wait_until(lambda: len(lines(tmp_path / "begun")) == EVENTS, 90, "all events to be taken in")
        seen = len(checkpoints(tmp_path))
        wait_until(lambda: len(checkpoints(tmp_path)) > seen, 60, "the checkpoint that they are in")
    finally:
        first.stop()
    (tmp_path / "go").touch()
    second = job(tmp_path, checkpoints(tmp_path)[seen].parent.as_uri())
    try:
        wait_until(lambda: len(answered(tmp_path)) == EVENTS, 90, "all answers")
    finally:
        second.stop()
