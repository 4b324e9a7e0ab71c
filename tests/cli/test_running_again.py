"""`run --retry-errors` and `run --fresh`: what is run again is free as far as it was answered before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beam_agents.cli.local.proxy import CountingProxy
from tests.cli.running import AGENTS, Command, lines_of

FRAGILE = f"{AGENTS.parent}/fragile.py:fragile"


@pytest.fixture
def common(proxy: CountingProxy) -> list[str]:
    return [FRAGILE, "--model=openai:m", f"--base-url={proxy.endpoint}/v1", "--json"]


@pytest.fixture
def failed(beam_agents: Command, tickets: Path, proxy: CountingProxy, common: list[str]) -> Path:
    """The folder of a run with one dead letter out of six events, whose first call was answered and paid."""
    folder = tickets.parent
    (folder / "broken").touch()
    ran = beam_agents("run", *common, f"--input={tickets}", "--key=who")
    closing = json.loads(ran.stdout)
    assert (ran.returncode, closing["committed"], closing["dead_letters"]) == (1, 5, {"RuntimeError": 1})
    assert proxy.take_count().requests == closing["requests"] == 11
    (folder / "broken").unlink()
    return folder


def again(beam_agents: Command, common: list[str], folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    ran = beam_agents(
        *["run", *common, f"--retry-errors={folder}/errors.jsonl", "--output=again/out.jsonl"],
        *[f"--journal=sqlite:///{folder}/journal.db", *more],
    )
    return ran.returncode, json.loads(ran.stdout)


def test_a_dead_letter_runs_again_and_what_was_answered_is_free(
    beam_agents: Command, failed: Path, proxy: CountingProxy, common: list[str]
) -> None:
    code, closing = again(beam_agents, common, failed)
    assert (code, closing["events"], closing["committed"]) == (0, 1, 1)
    assert (closing["recovered"]["answers"], closing["requests"]) == (1, 1)
    assert proxy.take_count().requests == 1
    (output,) = lines_of(failed / "again" / "out.jsonl")
    assert output["text"] == "my invoice is wrong"
    assert lines_of(failed / "again" / "errors.jsonl") == []

    code, closing = again(beam_agents, common, failed)
    assert (code, closing["recovered"]["answers"], closing["requests"]) == (0, 2, 0)
    assert proxy.count.requests == 0
    (output_again,) = lines_of(failed / "again" / "out.jsonl")
    assert output_again == output


def test_a_dead_letter_that_fails_again_is_said_to_cost_nothing_new(
    beam_agents: Command, failed: Path, proxy: CountingProxy, common: list[str]
) -> None:
    (failed / "broken").touch()
    code, closing = again(beam_agents, common, failed)
    assert (code, closing["dead_letters"], closing["requests"]) == (1, {"RuntimeError": 1}, 0)
    assert (closing["paid"]["answers"], closing["recovered"]["answers"]) == (0, 1)


def test_results_of_the_run_before_are_never_replaced_by_those_of_its_dead_letters(
    beam_agents: Command, failed: Path, proxy: CountingProxy, common: list[str]
) -> None:
    before = {name: (failed / name).read_bytes() for name in ("out.jsonl", "traces.jsonl", "errors.jsonl")}
    refused = beam_agents("run", *common, f"--retry-errors={failed}/errors.jsonl")
    assert refused.returncode == 2
    assert "would replace out.jsonl, traces.jsonl, errors.jsonl of the run before" in refused.stderr
    assert {name: (failed / name).read_bytes() for name in before} == before
    assert proxy.count.requests == 0


def test_a_dead_letter_run_afresh_pays_for_everything(
    beam_agents: Command, failed: Path, proxy: CountingProxy, common: list[str]
) -> None:
    code, closing = again(beam_agents, common, failed, "--fresh")
    assert (code, closing["recovered"]["answers"], closing["requests"]) == (0, 0, 2)
    assert proxy.count.requests == 2


def test_the_whole_run_again_pays_only_for_the_dead_letter(
    beam_agents: Command, failed: Path, tickets: Path, proxy: CountingProxy, common: list[str]
) -> None:
    closing = json.loads(beam_agents("run", *common, f"--input={tickets}", "--key=who").stdout)
    assert (closing["committed"], closing["recovered"]["answers"], closing["requests"]) == (6, 11, 1)
    assert proxy.take_count().requests == 1
    afresh = json.loads(beam_agents("run", *common, f"--input={tickets}", "--key=who", "--fresh").stdout)
    assert (afresh["committed"], afresh["recovered"]["answers"], afresh["requests"]) == (6, 0, 12)
    assert proxy.take_count().requests == 12
    resumed = json.loads(beam_agents("run", *common, f"--input={tickets}", "--key=who").stdout)
    assert (resumed["recovered"]["answers"], proxy.count.requests) == (12, 0)


def test_a_dead_letter_can_be_looked_at_with_replay(
    beam_agents: Command, failed: Path, tickets: Path, proxy: CountingProxy
) -> None:
    look = [
        *["replay", FRAGILE, f"--input={tickets}", "--key=who", "--entity=c0", "--seq=0"],
        f"--journal=sqlite:///{failed}/journal.db",
    ]
    (failed / "broken").touch()
    as_it_was = beam_agents(*look)
    assert "It ended as a dead letter: RuntimeError: no luck today" in as_it_was.stdout
    assert (as_it_was.returncode, as_it_was.stdout.splitlines()[-1]) == (0, "reproduced")
    (failed / "broken").unlink()
    mended = beam_agents(*look)
    assert mended.stdout.splitlines()[-1] == "not in the journal: call 1 (never asked)"
    assert mended.returncode == 3
    assert proxy.count.requests == 0
