"""`complete` on Flink's mini cluster. Runs where PyFlink and Java are installed (requirements/flink.txt)."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from tests.flink.jobs import lines, run
from tests.flink.processes import free_port, start

HERE = Path(__file__).parent


def test_every_element_gets_its_answer_or_a_dead_letter(tmp_path):
    port = free_port()
    server = start(
        "endpoint",
        [sys.executable, str(HERE / "endpoint.py"), str(port), "seed", "0", "0"],
        log=tmp_path / "endpoint.log",
        limit_s=260,
    )
    try:
        run("complete_job.py", f"http://127.0.0.1:{port}/v1", str(tmp_path))
    finally:
        server.stop()
    answers = {json.loads(line)["echo"] for line in lines(tmp_path / "main")}
    assert answers == {f"about text {n}" for n in range(20)}
    (letter,) = map(json.loads, lines(tmp_path / "errors"))
    assert (letter["event"], letter["error_type"]) == ("refuse", "TypeError")
    assert len(lines(tmp_path / "traces")) == 40


def test_as_many_calls_are_under_way_as_there_is_capacity_for(tmp_path):
    run("capacity_job.py", "1200", str(tmp_path))
    assert Counter(lines(tmp_path)) == {"1200": 1200}
