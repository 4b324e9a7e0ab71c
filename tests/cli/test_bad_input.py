"""Bad input: one clear sentence, exit code 2, no traceback, and nothing asked of a model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beam_agents.cli.events import read_events
from tests.cli.running import AGENTS, Command, environment

SORT = f"{AGENTS}:sort"
LOCAL = ("--model=openai:m", "--base-url=http://127.0.0.1:9/v1")


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text('{"who": "a", "text": "x"}\n')
    (tmp_path / "bad.jsonl").write_text('{"who": "a"}\n{"who": \n[1]\n')
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    (tmp_path / "cut.jsonl").write_text('["a' + "ä" * 60 + '"]\n')
    (tmp_path / "vast.jsonl").write_text('{"a": 18446744073709551615}\n{"a": 18446744073709551617}\n')
    (tmp_path / "twice.csv").write_text("a,b,a\n1,2,3\n")
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "events.data").write_text("x\n")
    (tmp_path / "wrong.json").write_text('{"models": 3}')


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([SORT], "nothing to run over"),
        (["sort", "--input=good.jsonl"], "'sort' does not name an agent"),
        (["no.such.module:f", "--input=good.jsonl"], "there is no module no.such.module"),
        (["missing.py:f", "--input=good.jsonl"], "there is no file missing.py"),
        ([f"{AGENTS}:srot", "--input=good.jsonl"], "did you mean sort?"),
        ([f"{AGENTS}:not_an_agent", "--input=good.jsonl"], "async def agent(ctx, event)"),
        ([f"{AGENTS.parent}/broken.py:f", "--input=good.jsonl"], "RuntimeError: no such luck"),
        ([SORT, "--input=missing.jsonl"], "missing.jsonl cannot be read: No such file"),
        ([SORT, "--input=bad.jsonl"], "bad.jsonl, line 2: this is not JSON"),
        ([SORT, "--input=bad.jsonl"], "bad.jsonl, line 3: an object {…} was expected, not [1]"),
        ([SORT, "--input=bad.csv"], "bad.csv, line 3: this row does not have the header's 2 columns"),
        ([SORT, "--input=cut.jsonl"], "cut.jsonl, line 1: an object {…} was expected, not"),
        ([SORT, "--input=vast.jsonl"], "vast.jsonl, line 2: a whole number needs more than 64 bits; write it as text"),
        ([SORT, "--input=twice.csv"], "twice.csv, line 1: two columns have the same name: a, b, a"),
        ([SORT, "--input=good.jsonl", "--max-errors=-1"], "--max-errors must be at least 0, not -1"),
        ([SORT, "--input=empty.jsonl"], "empty.jsonl holds no events"),
        ([SORT, "--input=events.data"], "--format"),
        ([SORT, "--input=events.data", "--format=xml"], "jsonl, csv, text"),
        ([SORT, "--input=events.data", "--format=text", "--key=x"], "--key x has no meaning"),
        ([SORT, "--input=good.jsonl", "--key=id"], "line 1: no key, because the field 'id' is missing"),
        ([SORT, "--input=good.jsonl", "--max-in-flight=0"], "max_in_flight must be an int of at least 1, not 0"),
        ([SORT, "--input=good.jsonl", "--journal=foo://x"], "no journal is called 'foo'"),
        ([SORT, "--input=good.jsonl", "--prices=wrong.json"], "prices must look like"),
        ([SORT, "--input=good.jsonl", "--prices=none.json"], "none.json cannot be read"),
        ([SORT, "--input=good.jsonl", "--output=traces.jsonl"], "must be three files"),
        ([SORT, "--input=good.jsonl", "--on-in-doubt=hope"], "repay, fail, defer"),
        ([SORT, "--input=good.jsonl", "--on-divergence=hope"], "warn, strict, rerun"),
        ([SORT, "--input=good.jsonl", "--otlp=ftp://x"], "no exporter for the scheme 'ftp'"),
        ([SORT, "--retry-errors=good.jsonl"], "this is no dead letter"),
    ],
)
def test_run_refuses_with_one_sentence(beam_agents: Command, arguments: list[str], said: str) -> None:
    ran = beam_agents("run", arguments[0], *LOCAL, *arguments[1:])
    assert said in ran.stderr
    assert ran.stderr.startswith("Error: ")
    assert "Traceback" not in ran.stderr
    assert (ran.returncode, ran.stdout) == (2, "")


def test_a_refusal_in_a_process_of_its_own(beam_agents_process: Command) -> None:
    ran = beam_agents_process("run", SORT, *LOCAL, "--input=good.jsonl", "--", "--runer=X")
    assert ran.stderr == "Error: Beam knows no option --runer=X (everything after -- goes to Beam)\n"
    assert (ran.returncode, ran.stdout) == (2, "")


@pytest.mark.parametrize(
    ("model", "said"), [("gpt-4o", "model"), ("nobody:x", "known are"), ("openai:x", "set OPENAI_API_KEY")]
)
def test_a_model_that_cannot_be_asked_is_refused(beam_agents: Command, model: str, said: str) -> None:
    ran = beam_agents("run", SORT, "--input=good.jsonl", f"--model={model}")
    assert said in ran.stderr
    assert ran.returncode == 2


def test_debug_shows_the_cause(beam_agents_process: Command) -> None:
    ran = beam_agents_process("--debug", "run", f"{AGENTS.parent}/broken.py:f", *LOCAL, "--input=good.jsonl")
    assert "Traceback" in ran.stderr
    assert ran.returncode == 2


@pytest.mark.parametrize("command", ["run", "demo", "report", "doctor"])
def test_every_command_shows_an_example(beam_agents: Command, command: str) -> None:
    ran = beam_agents(command, "--help")
    assert f"beam-agents {command}" in ran.stdout.split("Example:")[1]
    assert ran.returncode == 0


def test_help_imports_neither_beam_nor_http() -> None:
    code = (
        "import sys\nfrom beam_agents.cli.app import run_app\n"
        "try:\n    run_app(['run', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'apache_beam', 'aiohttp', 'grpc', 'plotly'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_byte_order_mark_is_no_part_of_the_first_event(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "12345678901234567890123", "x": 1.5}\n')
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfid,x\n1,2\n")
    assert read_events(str(tmp_path / "a.jsonl")) == [("line-1", {"id": "12345678901234567890123", "x": 1.5})]
    assert read_events(str(tmp_path / "a.txt")) == [("line-1", "one"), ("line-2", "two")]
    assert read_events(str(tmp_path / "a.csv"), key="id") == [("1", {"id": "1", "x": "2"})]
