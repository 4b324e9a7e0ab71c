"""A job goes on from a checkpoint that cut a bundle in two. Runs where PyFlink and Java are installed."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from urllib.parse import quote

from tests.flink.processes import free_port, start, wait_until

EVENTS = 100
HERE = Path(__file__).parent


def job(folder, port, *resumed_from):
    return start(
        "job",
        [sys.executable, str(HERE / "jobs" / "resumed_job.py"), str(folder), str(EVENTS), str(port), *resumed_from],
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


def ask(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return json.load(answer)


def metrics(port):
    """Names and values of our metrics, as the cluster tells them."""
    (running,) = ask(port, "/jobs")["jobs"]
    found = {}
    for vertex in ask(port, f"/jobs/{running['id']}")["vertices"]:
        path = f"/jobs/{running['id']}/vertices/{vertex['id']}/metrics"
        names = [one["id"] for one in ask(port, path) if ".beam_agents." in one["id"]]
        if names:
            found |= {one["id"]: one["value"] for one in ask(port, f"{path}?get={quote(','.join(names))}")}
    return {name.rpartition(".beam_agents.")[2]: value for name, value in found.items()}


def test_every_event_of_the_checkpoint_is_answered_and_counted_though_no_other_comes(tmp_path):
    first = job(tmp_path, free_port())
    try:
        wait_until(lambda: len(lines(tmp_path / "begun")) == EVENTS, 90, "all events to be taken in")
        seen = len(checkpoints(tmp_path))
        wait_until(lambda: len(checkpoints(tmp_path)) > seen, 60, "the checkpoint that they are in")
    finally:
        first.stop()
    (tmp_path / "go").touch()
    port = free_port()
    second = job(tmp_path, port, checkpoints(tmp_path)[seen].parent.as_uri())
    try:
        wait_until(lambda: len(answered(tmp_path)) == EVENTS, 90, "all answers")
        committed = str(EVENTS)
        wait_until(lambda: metrics(port).get("activations_committed") == committed, 30, "the metrics of all commits")
        found = metrics(port)
    finally:
        second.stop()
    assert found["queued_keys"] == "0"
    assert f"count={EVENTS}," in found["activation_ms"]
    assert "max=1}" in found["queued_events"]
