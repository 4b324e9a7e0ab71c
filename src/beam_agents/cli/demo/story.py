"""The demo as it unfolds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table

from beam_agents.cli.demo.acts import Command, Ran, outputs_of, run_and_kill, run_to_end
from beam_agents.cli.demo.bill import BillRow, Prices, bill_table, faults_text
from beam_agents.cli.demo.model import DemoModel, start_model
from beam_agents.cli.local.faults import FaultPlan
from beam_agents.cli.local.proxy import CountingProxy, WireCount
from beam_agents.cli.wording import counted
from beam_agents.report.words import duration_text

__all__ = ["tell"]

_ROUGH_SEA = FaultPlan(rate_limit=0.12, unavailable=0.10, reset=0.06, lost_answer=0.05, stall=0.05, stall_s=1.5)
_ACTS = ("1-plain", "2-faults", "3-killed")
_SHOWN = 6
_SLOW_MS = 700
_FEWEST = 12
_LAST_ANSWERS_S = 30.0


@dataclass(slots=True)
class _Stage:
    """What all acts share."""

    console: Console
    folder: Path
    tickets: list[dict[str, Any]]
    model: DemoModel
    proxy: CountingProxy
    bill: list[BillRow] = field(default_factory=list)

    def command(self, act: str) -> Command:
        return Command(self.folder / "tickets.jsonl", self.folder / act, self.proxy.endpoint, self.model.name)

    def announce(self, title: str, said: str, command: Command | None = None) -> None:
        self.console.print()
        self.console.print(Rule(f"[bold]{title}[/]", align="left", style="cyan"))
        self.console.print(said)
        if command is not None:
            self.console.print(Padding(f"[dim]$ {command}[/]", (0, 0, 0, 2)), highlight=False)

    def good(self, said: str) -> None:
        self.console.print(f"[green]✓[/] {said}")

    def check(self, holds: bool, said: str, otherwise: str) -> None:
        self.console.print(f"[green]✓[/] {said}" if holds else f"[red]✗[/] {otherwise}")


def tell(console: Console, folder: Path, prices: Prices, *, scripted: bool = False) -> int:
    """Run the demo in `folder`; returns the exit code: 0 when every run gave an answer for every ticket."""
    with _stage(console, folder, scripted) as stage:
        plain = _plain(stage)
        faulty = _faults(stage)
        resumed = _killed(stage)
        _closing(stage, prices)
    return 0 if all(ran.closing["committed"] == len(stage.tickets) for ran in (plain, faulty, resumed)) else 1


@contextmanager
def _stage(console: Console, folder: Path, scripted: bool) -> Iterator[_Stage]:
    for act in _ACTS:
        shutil.rmtree(folder / act, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    lines = (files("beam_agents.cli.demo_data") / "tickets.jsonl").read_text("utf-8").splitlines()
    console.print(
        Panel(
            f"{len(lines)} support tickets go through an Apache Beam pipeline; for each, an agent asks a model for "
            "category and urgency. First on a calm day, then with faults in front of the model, then the run is "
            "killed half way and started again. A proxy counts every request that really reaches the model.",
            title="[bold]beam-agents demo[/]",
            border_style="cyan",
        )
    )
    model = start_model(console, folder, scripted=scripted)
    with model.server, CountingProxy(model.server.endpoint) as proxy:
        lines = lines[: _affordable(console, model, len(lines))]
        (folder / "tickets.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        yield _Stage(console, folder, [json.loads(line) for line in lines], model, proxy)


def _affordable(console: Console, model: DemoModel, tickets: int) -> int:
    """All tickets, or fewer where the machine is so busy that the demo would take too long."""
    with console.status("Asking the model a first question ..."):
        took_ms = model.first_answer_ms()
    affordable = min(tickets, max(_FEWEST, round(tickets * _SLOW_MS / took_ms)))
    if affordable < tickets:
        console.print(
            f"[yellow]One answer takes {duration_text(took_ms)} here and now: the demo takes only {affordable} of the "
            f"{tickets} tickets.[/]"
        )
    return affordable


def _plain(stage: _Stage) -> Ran:
    command = stage.command(_ACTS[0])
    stage.announce("1  A calm day", "The command that you would type yourself:", command)
    ran = run_to_end(command)
    count = stage.proxy.take_count()
    _show_answers(stage, outputs_of(command))
    _compare(stage, ran, count)
    stage.bill.append(BillRow.of("calm day", count, took_ms=ran.took_ms))
    return ran


def _faults(stage: _Stage) -> Ran:
    command = stage.command(_ACTS[1])
    stage.announce(
        "2  The same, with faults in front of the model",
        "Now the proxy refuses, resets, loses and delays: rate limits with Retry-After, 503 pages, resets, answers "
        "lost after the model gave them.",
    )
    stage.proxy.plan = _ROUGH_SEA
    ran = run_to_end(command)
    stage.proxy.plan = None
    count = stage.proxy.take_count()
    stage.good(f"Injected: {faults_text(count)}.")
    closing = ran.closing
    stage.check(
        closing["committed"] == len(stage.tickets),
        f"All {closing['committed']} tickets are answered all the same, after "
        f"{counted(closing['retries'], 'retry', 'retries')}.",
        f"{sum(closing['dead_letters'].values())} tickets became dead letters: {closing['dead_letters']}.",
    )
    _compare(stage, ran, count)
    lost = count.served - closing["paid"]["answers"]
    note = f"{lost} lost" if lost else ""
    stage.bill.append(BillRow.of("with faults", count, took_ms=ran.took_ms, note=note))
    return ran


def _killed(stage: _Stage) -> Ran:
    command, proxy = stage.command(_ACTS[2]), stage.proxy
    half = len(stage.tickets) // 2
    stage.announce(
        "3  Killed half way, and run again",
        f"After {half} answers the process gets SIGKILL: no clean-up, no goodbye.",
        command,
    )
    lived_ms = run_and_kill(command, lambda: proxy.count.served >= half)
    stage.console.print(
        f"[red]☠[/] Killed after {duration_text(lived_ms)}; the model had given {proxy.snapshot().served} answers."
    )
    proxy.wait_until_idle(_LAST_ANSWERS_S)  # the model finishes what it was asked, and would be paid for it
    first = proxy.snapshot()
    stage.console.print("The same command again:")
    ran = run_to_end(command)
    whole = proxy.take_count()
    second = whole - first
    recovered = ran.closing["recovered"]["answers"]
    stage.good(
        f"{recovered} answers came from the journal, for nothing; "
        f"{counted(second.requests, 'request')} went out for the rest."
    )
    in_doubt, unanswered = ran.closing["in_doubt_before"], first.requests - recovered
    stage.check(
        whole.served_twice <= unanswered <= in_doubt,
        f"{counted(in_doubt, 'request was', 'requests were')} under way when the process died, and the account has "
        f"them in doubt. {counted(whole.served_twice, 'of their answers', 'of their answers')} had to be paid twice.",
        f"{unanswered} requests were in flight when the process died, but {in_doubt} are in doubt and "
        f"{whole.served_twice} answers were paid twice.",
    )
    calm, killed = outputs_of(stage.command(_ACTS[0])), outputs_of(command)
    same = sum(calm.get(ticket) == answer for ticket, answer in killed.items())
    stage.check(
        len(killed) == len(stage.tickets),
        f"All {len(killed)} tickets are in the output, none twice; {same} answers equal those of the calm day.",
        f"Only {len(killed)} of {len(stage.tickets)} tickets are in the output.",
    )
    calm_row = stage.bill[0]
    stage.bill += [
        BillRow.of("killed half way", first, took_ms=lived_ms),
        BillRow.of("… run again", second, took_ms=ran.took_ms, note=f"{recovered} recovered"),
        BillRow(
            "… without a journal",
            calm_row.requests,
            calm_row.input_tokens,
            calm_row.output_tokens,
            note="computed",
            computed=True,
        ),
    ]
    return ran


def _closing(stage: _Stage, prices: Prices) -> None:
    stage.announce("The bill", "")
    stage.console.print(bill_table(stage.bill, prices))
    traces = stage.command(_ACTS[1]).folder / "traces.jsonl"
    stage.console.print(
        f"\nEverything lies in [bold]{stage.folder}[/]: answers, traces, dead letters, journals. Look further with\n"
        f"  [cyan]beam-agents report {traces}[/]",
        highlight=False,
    )


def _show_answers(stage: _Stage, answers: dict[str, dict[str, Any]]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("ticket", "category", "urgency"):
        table.add_column(name, no_wrap=name != "ticket")
    for ticket in stage.tickets[:_SHOWN]:
        answer = answers.get(ticket["id"], {})
        table.add_row(ticket["text"], f"[cyan]{answer.get('category', '–')}[/]", f"{answer.get('urgency', '–')}")
    stage.console.print(Padding(table, (1, 0, 1, 2)))
    agreed = sum(answers.get(ticket["id"], {}).get("category") == ticket["desk"] for ticket in stage.tickets)
    who = "stand-in" if stage.model.scripted else "model, tiny as it is,"
    stage.console.print(
        f"The {who} sends {agreed} of {len(stage.tickets)} tickets to the desk a person would choose. "
        "Every answer fits the schema."
    )


def _compare(stage: _Stage, ran: Ran, count: WireCount) -> None:
    told = ran.closing["requests"]
    stage.check(
        told == count.requests,
        f"{counted(count.requests, 'request')} reached the proxy; the run's own account says the same.",
        f"{counted(count.requests, 'request')} reached the proxy, but the run's own account says {told:,}.",
    )
