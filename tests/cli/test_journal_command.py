"""`beam-agents journal`: counting, showing, exporting and deleting what a journal holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beam_agents.journals import open_journal
from beam_agents.ports import CallIdentity, Intent
from beam_agents.testing import ManualClock
from beam_agents.values import TokenUsage
from tests.cli.running import Command

URI = "sqlite:///journal.db"
BEGAN = 1_790_000_000_000
RUN = "agent.py:f in.jsonl openai:gpt-4o-mini"
SECRET = "the customer said X"
USAGE = TokenUsage(1_000_000, 100_000, 1_100_000)


def call(
    number: int, *, key: bytes = b"c1", model: str = "gpt-4o-mini", scope: str = RUN, step: int = 0
) -> CallIdentity:
    return CallIdentity(f"{number}" * 64, key, number, step, model, scope)


async def begun(journal: object, identity: CallIdentity) -> Intent:
    intent = await journal.begin(identity)  # type: ignore[attr-defined]
    assert isinstance(intent, Intent)
    return intent


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    """An answer after a failure; one of a model without a price; one in doubt; a step."""
    path = tmp_path / "journal.db"
    opened = open_journal(f"sqlite:///{path}?ttl_h=inf", now_ms=ManualClock(BEGAN), owner="worker-1")
    await opened.record_failure(await begun(opened, call(1)), "failed", "ServerError", 503)
    await opened.record_answer(await begun(opened, call(1)), SECRET.encode(), USAGE)
    await opened.record_answer(await begun(opened, call(2, model="home-made")), b"{}", USAGE)
    await opened.record_failure(await begun(opened, call(3, key=b"\xff\x00")), "in_doubt", "ProviderTimeout")
    step = CallIdentity("4" * 64, b"c1", 4, 1, "", "other", kind="step")
    await opened.record_answer(await begun(opened, step), b"[1]", None)
    await opened.aclose()
    return path


def test_stats_count_and_price(beam_agents: Command, journal: Path) -> None:
    ran = beam_agents("journal", "stats", URI, "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["calls"], told["requests"], told["answered"], told["failed"], told["in_doubt"]) == (4, 5, 3, 1, 1)
    assert (told["input_tokens"], told["money"], told["currency"]) == (2_000_000, "0.210", "USD")
    assert (told["models_without_price"], told["answers_without_price"]) == (["home-made"], 1)
    of = {(one["namespace"], one["model"]): one for one in told["by_model"]}
    assert of[RUN, "gpt-4o-mini"]["money"] == "0.210"  # 1M at $0.15 and 0.1M at $0.60, on that day
    assert of[RUN, "home-made"]["money"] is None
    assert "money" not in of["other", ""]


def test_stats_for_people_say_what_is_unknown(beam_agents: Command, journal: Path) -> None:
    shown = beam_agents("journal", "stats", URI).stdout
    assert "$0.21" in shown
    assert "at least $0.21" in shown
    assert "unknown" in shown
    assert "no price is known for home-made" in shown
    assert f"looked up on {datetime.now(UTC).date()}" in shown
    assert "USD" in shown


def test_own_prices_come_first(beam_agents: Command, journal: Path, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"currency": "EUR", "models": {"home-made": {"input": 2, "output": 10}}}')
    told = json.loads(beam_agents("journal", "stats", URI, "--json", "--prices=p.json").stdout)
    assert (told["money"], told["currency"], told["models_without_price"]) == ("3", "EUR", ["gpt-4o-mini"])


def test_show_lists_requests_without_answers(beam_agents: Command, journal: Path) -> None:
    shown = beam_agents("journal", "show", URI).stdout
    for said in ("failed (ServerError 503)", "in doubt (ProviderTimeout)", "0xff00", "(step)", "1,000,000 + 100,000"):
        assert said in shown
    assert SECRET not in shown
    assert SECRET not in beam_agents("journal", "show", URI, "--json").stdout
    assert SECRET in beam_agents("journal", "show", URI, "--answers", "--call=1111").stdout


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        (["--entity=0xff00"], [3]),
        (["--entity=c1", "--seq=1"], [1, 1]),
        (["--namespace=other"], [4]),
        (["--call=22"], [2]),
        (["--limit=2"], [1, 1]),
        (["--seq=9"], []),
    ],
)
def test_show_narrows(beam_agents: Command, journal: Path, options: list[str], seqs: list[int]) -> None:
    ran = beam_agents("journal", "show", URI, "--json", *options)
    assert [json.loads(line)["seq"] for line in ran.stdout.splitlines()] == seqs


@pytest.fixture
async def strange(tmp_path: Path) -> None:
    opened = open_journal(f"sqlite:///{tmp_path / 'journal.db'}")
    identity = call(1, key=b"\x1b[31mkey", model="[bold]m", scope="\x1b]0;title\x07")
    await opened.record_answer(await begun(opened, identity), b"\x1b[2Jgone", None)
    await opened.aclose()


@pytest.mark.usefixtures("strange")
def test_what_strangers_wrote_does_not_reach_the_terminal_as_commands(beam_agents: Command) -> None:
    for arguments in (["show", URI], ["show", URI, "--answers"], ["stats", URI]):
        shown = beam_agents("journal", *arguments)
        assert shown.returncode == 0, shown.stderr
        assert "\x1b" not in shown.stdout
        assert "[bold]m" in shown.stdout


def test_show_says_that_there_is_more(beam_agents: Command, journal: Path) -> None:
    assert "more than 2" in beam_agents("journal", "show", URI, "--limit=2").stdout
    assert "No records." in beam_agents("journal", "show", URI, "--seq=9").stdout


def test_export_writes_every_record(beam_agents_process: Command, journal: Path, tmp_path: Path) -> None:
    piped = beam_agents_process("journal", "export", URI)
    assert [json.loads(line)["outcome"] for line in piped.stdout.splitlines()].count("answered") == 3
    ran = beam_agents_process("journal", "export", URI, "--output=records.jsonl", "--answers")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "Written: 5 records to records.jsonl\n")
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert [line.get("response") for line in lines] == [None, SECRET, "{}", None, "[1]"]


def test_prune_by_age_and_by_choice(beam_agents: Command, journal: Path) -> None:
    assert beam_agents("journal", "prune", URI, "--older-than=2020-01-01").stdout == "Deleted: 0 calls, 0 requests\n"
    chosen = beam_agents("journal", "prune", URI, "--entity=c1", "--seq=1")
    assert chosen.stdout == "Deleted: 1 call, 2 requests\n"
    date = datetime.fromtimestamp(BEGAN / 1000 + 86_400, UTC).date()
    assert beam_agents("journal", "prune", URI, f"--older-than={date}").stdout == "Deleted: 3 calls, 3 requests\n"
    assert json.loads(beam_agents("journal", "stats", URI, "--json").stdout)["calls"] == 0
    assert beam_agents("journal", "stats", URI).stdout == "No records.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stats", "sqlite:///none.db"], "there is no journal at"),
        (["stats", "journal.db"], "no scheme"),
        (["stats", "mysql://x"], "no journal is called 'mysql'"),
        (["stats", "memory://x"], "this process has no such journal"),
        (["stats", URI, "--prices=none.json"], "none.json cannot be read"),
        (["show", URI, "--limit=0"], "--limit must be at least 1"),
        (["show", URI, "--seq=99999999999999999999"], "--seq counts from 0"),
        (["export", URI, "--output=no/such/folder.jsonl"], "cannot be written"),
        (["prune", URI], "say which calls to delete"),
        (["prune", URI, "--older-than=30d", "--seq=1"], "say which calls to delete"),
        (["prune", URI, "--older-than=soon"], "an age such as 12h"),
    ],
)
def test_bad_input_is_one_sentence(beam_agents: Command, journal: Path, arguments: list[str], said: str) -> None:
    ran = beam_agents("journal", *arguments)
    assert said in ran.stderr
    assert ran.stderr.startswith("Error: ")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)


def test_a_damaged_file_is_one_sentence(beam_agents_process: Command, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"this is no database, whatever its name says" * 50)
    ran = beam_agents_process("journal", "stats", URI)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert "journal.db" in ran.stderr


@pytest.mark.parametrize("subcommand", ["stats", "show", "export", "prune"])
def test_every_subcommand_shows_an_example(beam_agents: Command, subcommand: str) -> None:
    assert f"beam-agents journal {subcommand}" in beam_agents("journal", subcommand, "--help").stdout
