"""`beam-agents run` as a user runs it: a process, a file of events, a model over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from beam_agents.cli.local.faults import FaultPlan
from beam_agents.cli.local.proxy import CountingProxy
from tests.cli.running import AGENTS, Command, command_line, environment, lines_of


def arguments(tickets: Path, proxy: CountingProxy, *more: str, agent: str = "sort") -> list[str]:
    return [
        "run",
        f"{AGENTS}:{agent}",
        f"--input={tickets}",
        "--key=who",
        "--model=openai:stand-in",
        f"--base-url={proxy.endpoint}/v1",
        "--json",
        *more,
    ]


def test_a_run_answers_every_event_and_a_second_one_is_free(
    beam_agents: Command, tickets: Path, proxy: CountingProxy
) -> None:
    first = beam_agents(*arguments(tickets, proxy))
    assert first.returncode == 0, first.stderr
    closing = json.loads(first.stdout)
    assert (closing["events"], closing["committed"], closing["outputs"], closing["requests"]) == (6, 6, 6, 6)
    count = proxy.take_count()
    assert (count.requests, count.tokens) == (6, closing["paid"]["input_tokens"] + closing["paid"]["output_tokens"])
    answers = {answer["text"]: answer["desk"] for answer in lines_of(tickets.parent / "out.jsonl")}
    assert answers["my invoice is wrong"] == "billing"
    assert len(answers) == 6

    again = json.loads(beam_agents(*arguments(tickets, proxy)).stdout)
    assert (again["requests"], again["recovered"]["answers"], again["paid"]["answers"]) == (0, 6, 0)
    assert proxy.count.requests == 0
    assert {answer["text"]: answer["desk"] for answer in lines_of(tickets.parent / "out.jsonl")} == answers


def test_prompts_and_answers_are_recorded_when_asked_for_and_redacted(
    beam_agents: Command, tickets: Path, proxy: CountingProxy
) -> None:
    redact = f"--redact={AGENTS}:without_invoices"
    assert beam_agents(*arguments(tickets, proxy, "--record-content", redact)).returncode == 0
    told = (tickets.parent / "traces.jsonl").read_text()
    assert told.count("gen_ai.input.messages") == told.count("gen_ai.output.messages") == 6
    assert "my [bill] is wrong" in told
    assert "my invoice" not in told


def test_fresh_pays_again(beam_agents: Command, tickets: Path, proxy: CountingProxy) -> None:
    beam_agents(*arguments(tickets, proxy))
    again = json.loads(beam_agents(*arguments(tickets, proxy, "--fresh")).stdout)
    assert (again["requests"], again["recovered"]["answers"]) == (6, 0)


def test_a_longer_input_pays_for_what_is_new(beam_agents: Command, tickets: Path, proxy: CountingProxy) -> None:
    beam_agents(*arguments(tickets, proxy))
    with tickets.open("a") as more:
        more.write('{"who": "c9", "text": "where is my invoice?"}\n')
    again = json.loads(beam_agents(*arguments(tickets, proxy)).stdout)
    assert (again["committed"], again["requests"], again["recovered"]["answers"]) == (7, 1, 6)


def test_faults_are_ridden_out_and_counted(beam_agents: Command, tickets: Path, proxy: CountingProxy) -> None:
    proxy.plan = FaultPlan(unavailable=0.4, lost_answer=0.2, seed=3)
    ran = beam_agents(*arguments(tickets, proxy))
    closing = json.loads(ran.stdout)
    assert closing["committed"] == 6
    assert closing["requests"] == proxy.count.requests > 6
    assert closing["in_doubt"] == proxy.count.faults["lost_answer"]
    assert closing["failed_requests"] == proxy.count.faults["unavailable"]


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_an_ended_run_leaves_whole_lines_and_is_resumed(
    beam_agents_process: Command, tickets: Path, proxy: CountingProxy, kill: signal.Signals
) -> None:
    proxy.plan = FaultPlan(stall=1.0, stall_s=0.2)
    command = arguments(tickets, proxy, "--max-in-flight=1")
    with subprocess.Popen(
        command_line(*command),
        cwd=tickets.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=_heed_ctrl_c,
    ) as process:
        assert proxy.wait_until_served(4, 60)
        process.send_signal(kill)
        said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == (130 if kill is signal.SIGINT else -kill)
    assert not (tickets.parent / "out.jsonl").exists()
    unfinished = (tickets.parent / "out.jsonl.part").read_bytes()
    assert unfinished == b"" or unfinished.endswith(b"}\n")
    first = proxy.take_count()

    closing = json.loads(beam_agents_process(*command).stdout)
    recovered = closing["recovered"]["answers"]
    assert closing["committed"] == 6
    assert recovered + closing["requests"] == 6
    assert recovered >= first.served - 1  # one was in flight at most
    assert len(lines_of(tickets.parent / "out.jsonl")) == 6
    if kill is signal.SIGINT:
        assert recovered == first.served  # it was given the time to end
        assert "pay only for the rest" in said
    else:
        assert closing["in_doubt_before"] <= 1


def test_dead_letters_decide_the_exit_code_and_can_be_run_again(
    beam_agents: Command, tickets: Path, proxy: CountingProxy
) -> None:
    with tickets.open("a") as more:
        more.write('{"who": "c1", "text": "which colour?"}\n')
    ran = beam_agents(*arguments(tickets, proxy, agent="unlucky"))
    assert ran.returncode == 1
    closing = json.loads(ran.stdout)
    assert (closing["committed"], closing["dead_letters"]) == (6, {"OutputSchemaError (schema_violation)": 1})
    errors = tickets.parent / "errors.jsonl"
    (letter,) = lines_of(errors)
    assert (letter["event"]["text"], letter["entity_key"], letter["seq"]) == ("which colour?", "c1", 2)
    assert beam_agents(*arguments(tickets, proxy, "--max-errors=1", agent="unlucky")).returncode == 0

    proxy.take_count()
    retry = [one for one in arguments(tickets, proxy, agent="unlucky") if not one.startswith(("--input", "--key"))]
    again = beam_agents(
        *retry, f"--retry-errors={errors}", "--output=again/out.jsonl", "--journal=sqlite:///journal.db"
    )
    assert json.loads(again.stdout)["recovered"]["answers"] == 1
    assert proxy.count.requests == 0
    (letter_again,) = lines_of(tickets.parent / "again" / "errors.jsonl")
    assert (letter_again["event"], letter_again["seq"]) == (letter["event"], 2)

    fresh = beam_agents(*retry, f"--retry-errors={errors}", "--output=fresh/out.jsonl", "--fresh")
    assert fresh.returncode == 1
    assert proxy.count.requests == 1


def test_what_json_cannot_hold_is_a_dead_letter(beam_agents: Command, tickets: Path, proxy: CountingProxy) -> None:
    ran = beam_agents(*arguments(tickets, proxy, agent="unwritable"))
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["dead_letters"] == {"TypeError": 6}
    assert "must be JSON" in lines_of(tickets.parent / "errors.jsonl")[0]["message"]


def test_lines_of_text_from_standard_input_without_a_journal(
    beam_agents_process: Command, tmp_path: Path, proxy: CountingProxy
) -> None:
    base = [
        "run",
        f"{AGENTS}:sort",
        "--input=-",
        "--format=text",
        "--model=openai:x",
        f"--base-url={proxy.endpoint}/v1",
    ]
    ran = beam_agents_process(*base, "--journal=none", stdin="it crashes\n\nI love it\n")
    assert ran.returncode == 0, ran.stderr
    assert "journal" not in ran.stdout
    assert {line["desk"] for line in lines_of(tmp_path / "out.jsonl")} == {"bug", "feedback"}
    assert not (tmp_path / "journal.db").exists()


def test_the_closing_table_says_what_people_want_to_know(
    beam_agents: Command, tickets: Path, proxy: CountingProxy, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"models": {"scripted-stand-in": {"input": 1000, "output": 2000}}}')
    shown = [one for one in arguments(tickets, proxy, f"--prices={prices}") if one != "--json"]
    first, again = beam_agents(*shown), beam_agents(*shown)
    tokens = sum(
        int(event["attributes"].get("gen_ai.usage.input_tokens", 0)) for event in lines_of(tmp_path / "traces.jsonl")
    )
    assert tokens > 0
    assert "6 asked the model" in first.stdout
    assert "unknown" not in first.stdout
    assert "6 already answered" in again.stdout
    assert "answers from the journal" in again.stdout
    assert "saved" in again.stdout
    assert beam_agents(*shown, "--quiet").stdout == ""


def test_another_runner_writes_the_same_files(beam_agents: Command, tickets: Path, proxy: CountingProxy) -> None:
    ran = beam_agents(*arguments(tickets, proxy), "--", "--runner=BundleBasedDirectRunner")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["committed"] == 6
    assert len(lines_of(tickets.parent / "out.jsonl")) == 6


def _heed_ctrl_c() -> None:
    """A process started in the background may ignore Ctrl-C, and its children with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_schema_that_cannot_be_asked_for_is_told_before_anything_runs(
    beam_agents: Command, tickets: Path, proxy: CountingProxy
) -> None:
    ran = beam_agents(*arguments(tickets, proxy, agent="tag"))
    assert "Warning: asking for Tagged will fail before anything is sent: openai cannot" in ran.stderr
    assert ran.returncode == 1
    closing = json.loads(ran.stdout)
    assert (closing["requests"], list(closing["dead_letters"].values())) == (0, [6])
    assert proxy.count.requests == 0


def test_structured_output_prompt_writes_the_schema_into_the_prompt(
    beam_agents: Command, tickets: Path, proxy: CountingProxy
) -> None:
    ran = beam_agents(*arguments(tickets, proxy, "--structured-output=prompt", agent="tag"))
    assert "Warning" not in ran.stderr
    assert proxy.count.requests == 6
