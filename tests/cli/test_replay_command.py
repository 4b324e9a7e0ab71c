"""`beam-agents replay`: one activation again, offline, from the journal that a run left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from beam_agents.cli.local.proxy import CountingProxy
from tests.cli.running import AGENTS, LIMIT_S, Command, command_line, environment, lines_of

DUO = AGENTS.parent / "duo.py"
ANSWER = '"category": "billing"'


@pytest.fixture(scope="module")
def ran(stand_in: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run over four events of two keys."""
    folder = tmp_path_factory.mktemp("ran")
    texts = ["my invoice is wrong", "it crashes", "the invoice again", "how do I export?"]
    events = [{"who": f"c{at % 2}", "text": text} for at, text in enumerate(texts)]
    (folder / "tickets.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    command = command_line(
        *["run", f"{DUO}:duo", "--input=tickets.jsonl", "--key=who", "--quiet"],
        *["--model=openai:gpt-4o-mini", f"--base-url={stand_in}/v1"],
    )
    process = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    assert process.returncode == 0, process.stderr
    return folder


def replay(ran: Path, *more: str, agent: Path = DUO, entity: str = "c0", seq: int = 1) -> list[str]:
    return [
        *["replay", f"{agent}:duo", f"--input={ran}/tickets.jsonl", "--key=who", f"--entity={entity}", f"--seq={seq}"],
        *[f"--journal=sqlite:///{ran}/journal.db", *more],
    ]


def edited(folder: Path, old: str, new: str) -> Path:
    """The agent with one change, under the same name."""
    text = DUO.read_text()
    assert old in text
    path = folder / "edited" / "duo.py"
    path.parent.mkdir()
    path.write_text(text.replace(old, new))
    return path


def test_an_activation_is_reproduced_in_a_process_that_cannot_reach_a_model(
    beam_agents_process: Command, ran: Path
) -> None:
    ended = beam_agents_process(*replay(ran))
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == "c0, seq 1, in duo.py:duo tickets.jsonl openai:gpt-4o-mini"
    assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "2"]
    assert lines[-1] == "reproduced"
    assert ANSWER not in ended.stdout


def test_what_it_emits_is_what_the_run_wrote(beam_agents: Command, ran: Path) -> None:
    told = json.loads(beam_agents(*replay(ran, "--json", "--answers")).stdout)
    assert told["output_values"][0]["ticket"] == 2
    assert told["output_values"][0] in lines_of(ran / "out.jsonl")
    assert [call["source"] for call in told["calls"]] == ["journal"] * 3
    assert [call["kind"] for call in told["calls"]] == ["call", "step", "call"]
    recorded = {
        event["attributes"]["beam_agents.call_id"]
        for event in lines_of(ran / "traces.jsonl")
        if "beam_agents.call_id" in event["attributes"]
    }
    assert {call["call_id"] for call in told["calls"] if call["kind"] == "call"} <= recorded
    assert "text" not in json.loads(beam_agents(*replay(ran, "--json")).stdout)["calls"][0]
    assert ANSWER in beam_agents(*replay(ran, "--answers")).stdout


def test_an_edited_prompt_diverges_at_its_call(beam_agents: Command, ran: Path, tmp_path: Path) -> None:
    agent = edited(tmp_path, "be brief", "be long")
    ended = beam_agents(*replay(ran, agent=agent))
    assert ended.stdout.splitlines()[-1] == "diverged at call 2 (messages[0].content)"
    assert "The earlier event seq 0 was not reproduced" in ended.stdout
    assert ended.returncode == 1
    told = json.loads(beam_agents(*replay(ran, "--json", agent=agent)).stdout)
    assert (told["verdict"], told["calls"][2]["changed"]) == ("diverged", ["messages[0].content"])
    assert told["earlier_not_reproduced"] == [0]


@pytest.mark.parametrize(
    ("old", "new", "words", "code"),
    [
        ('"length", len', '"size", len', "diverged at step 1 (another step)", 1),
        (", output_schema=Category", "", "diverged at call 0 (sampling_params.response_format)", 1),
        ("    second = await", "    return 1\n    second = await", "diverged at call 2 (the journal knows it", 1),
        ("    return {", '    await ctx.complete("more")\n    return {', "not in the journal: call 3 (never asked)", 3),
    ],
)
def test_other_edits(
    beam_agents: Command, ran: Path, tmp_path: Path, old: str, new: str, words: str, code: int
) -> None:
    ended = beam_agents(*replay(ran, agent=edited(tmp_path, old, new), seq=0))
    assert ended.stdout.splitlines()[-1].startswith(words)
    assert ended.returncode == code


def test_what_was_never_run_is_not_in_the_journal(beam_agents: Command, ran: Path) -> None:
    ended = beam_agents(*replay(ran, "--namespace=another"))
    assert ended.stdout == "not in the journal: nothing is known of 'c0' seq 1 under the namespace 'another'\n"
    assert ended.returncode == 3
    assert json.loads(beam_agents(*replay(ran, "--model=openai:gpt-5", "--json")).stdout)["calls"] == []


def test_another_model_is_priced_before_it_is_paid(beam_agents: Command, ran: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"models": {"other": {"input": 1000, "output": 2000}}}')
    what_if = ["--what-if=model=anthropic:other", f"--prices={prices}"]
    told = json.loads(beam_agents(*replay(ran, *what_if, "--json")).stdout)
    found = told["estimate"]
    assert "verdict" not in told
    assert [call["source"] for call in told["calls"]] == ["stand_in", "journal", "stand_in"]
    assert (found["calls_to_be_paid"], found["currency"]) == (2, "USD")
    assert float(found["money"]) == (found["input_tokens"] * 1000 + found["output_tokens"] * 2000) / 1_000_000
    shown = beam_agents(*replay(ran, *what_if))
    assert shown.returncode == 0
    assert "2 of 2 calls would have to be paid" in shown.stdout
    assert "This is an estimate" in shown.stdout
    assert "free" in shown.stdout


def test_a_model_without_a_price_is_unknown(beam_agents: Command, ran: Path) -> None:
    shown = beam_agents(*replay(ran, "--what-if=model=openai:home-made")).stdout
    assert "unknown" in shown
    assert "$" not in shown


def test_several_namespaces_are_a_question(
    beam_agents: Command, beam_agents_process: Command, tickets: Path, proxy: CountingProxy
) -> None:
    run = [
        *["run", f"{DUO}:duo", f"--input={tickets}", "--key=who", "--quiet"],
        *["--model=openai:m", f"--base-url={proxy.endpoint}/v1"],
    ]
    assert beam_agents(*run, "--namespace=mine").returncode == 0
    assert beam_agents(*run, "--namespace=other").returncode == 0
    asked = replay(tickets.parent)
    ended = beam_agents(*asked)
    assert ended.stderr.startswith("Error: the journal knows this position under 2 namespaces; choose one with")
    assert "'mine', 'other'" in ended.stderr
    assert "does not tell the model's vendor" in beam_agents(*asked, "--namespace=mine").stderr
    count = proxy.count.requests
    ended = beam_agents(*asked, "--namespace=mine", "--model=openai:m")
    assert ended.stdout.splitlines()[-1] == "reproduced"
    assert proxy.count.requests == count
    default = beam_agents(*run)
    assert default.returncode == 0
    assert beam_agents(*asked).stdout.splitlines()[-1] == "reproduced"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--entity=c7"], "has no event of the key 'c7'; its keys are c0, c1"),
        (["--seq=2"], "has 2 events of the key 'c0', so --seq goes from 0 to 1, not 2"),
        (["--seq=-1"], "--seq goes from 0 to 1"),
        (["--journal=sqlite:///none.db"], "there is no journal at"),
        (["--journal=mysql://x"], "no journal is called 'mysql'"),
        (["--what-if=openai:x"], "--what-if must look like model=openai:gpt-4o-mini"),
        (["--what-if=model=nobody:x"], "known are"),
        (["--input=none.jsonl"], "none.jsonl cannot be read"),
        (["--key=whom"], "the field 'whom' is missing"),
        (["--prices=none.json"], "none.json cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(beam_agents: Command, ran: Path, more: list[str], said: str) -> None:
    ended = beam_agents(*replay(ran), *more)
    assert said in ended.stderr
    assert ended.stderr.startswith("Error: ")
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, ended.stdout) == (2, "")


def test_a_model_of_nobody_is_one_sentence(beam_agents_process: Command, ran: Path) -> None:
    namespace = "duo.py:duo tickets.jsonl openai:gpt-4o-mini"
    ended = beam_agents_process(*replay(ran, "--model=nobody:x", f"--namespace={namespace}"))
    assert "known are anthropic:MODEL" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, ended.stdout) == (2, "")


def test_help_shows_an_example(beam_agents: Command) -> None:
    assert "beam-agents replay" in beam_agents("replay", "--help").stdout.split("Example:")[1]
