"""The options of `beam-agents journal`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_agents.cli.ending import exit_with

__all__ = ["EXAMPLE", "journal"]

EXAMPLE = "beam-agents journal stats sqlite:///journal.db"

journal = typer.Typer(
    help="Look at a journal: count its requests, show them, export them, delete old ones.", no_args_is_help=True
)
"""The command with its subcommands."""

_Uri = Annotated[str, typer.Argument(metavar="URI", help="sqlite:///journal.db, redis://… or postgresql://…")]
_Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only records of this namespace.")]
_Entity = Annotated[str | None, typer.Option("--entity", "-e", help="Only records of this entity key.")]
_Seq = Annotated[int | None, typer.Option("--seq", help="Only records of this position of the key.")]
_Call = Annotated[str | None, typer.Option("--call", help="Only the calls whose id begins like this.")]
_Answers = Annotated[bool, typer.Option("--answers", help="The models' answers, too: they may hold personal data.")]


@journal.command(epilog=f"Example:  {EXAMPLE}")
def stats(
    uri: _Uri,
    namespace: _Namespace = None,
    entity: _Entity = None,
    seq: _Seq = None,
    prices: Annotated[str | None, typer.Option(help="JSON file with prices of your own.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Count the requests: how they ended, what they cost."""

    def work() -> int:
        from rich.console import Console

        from beam_agents.cli.journal.access import filter_of
        from beam_agents.cli.journal.stats import count_journal, stats_json, stats_table
        from beam_agents.cli.result_lines import json_line
        from beam_agents.cli.run_plan import price_book

        found, cost = count_journal(uri, filter_of(namespace, entity, seq), price_book(prices))
        if as_json:
            print(json_line(stats_json(found, cost)).decode(), end="")
        else:
            Console().print(stats_table(found, cost))
        return 0

    exit_with(work)


@journal.command(epilog="Example:  beam-agents journal show sqlite:///journal.db --entity c7 --seq 3")
def show(
    uri: _Uri,
    namespace: _Namespace = None,
    entity: _Entity = None,
    seq: _Seq = None,
    call: _Call = None,
    limit: Annotated[int, typer.Option(help="Records to show at most.")] = 50,
    answers: _Answers = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON for each.")] = False,
) -> None:
    """Show the requests, one a line."""

    def work() -> int:
        from beam_agents.cli.journal.access import filter_of
        from beam_agents.cli.journal.listing import show as show_records

        where = filter_of(namespace, entity, seq, call)
        show_records(uri, where, limit=limit, answers=answers, as_json=as_json)
        return 0

    exit_with(work)


@journal.command(epilog="Example:  beam-agents journal export sqlite:///journal.db --output records.jsonl")
def export(
    uri: _Uri,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; without it, standard output.")
    ] = None,
    namespace: _Namespace = None,
    entity: _Entity = None,
    seq: _Seq = None,
    call: _Call = None,
    answers: _Answers = False,
) -> None:
    """Write every record as a line of JSON."""

    def work() -> int:
        from beam_agents.cli.journal.access import filter_of
        from beam_agents.cli.journal.listing import export as export_records

        export_records(uri, filter_of(namespace, entity, seq, call), output=output, answers=answers)
        return 0

    exit_with(work)


@journal.command(epilog="Example:  beam-agents journal prune sqlite:///journal.db --older-than 30d")
def prune(
    uri: _Uri,
    older_than: Annotated[
        str | None,
        typer.Option(help="Calls whose last change is older: 12h, 30d, 4w, or a date such as 2026-01-31 (UTC)."),
    ] = None,
    namespace: _Namespace = None,
    entity: _Entity = None,
    seq: _Seq = None,
    call: _Call = None,
) -> None:
    """Delete calls for good: old ones, or chosen ones. Asked for again, they are paid again."""

    def work() -> int:
        from beam_agents.cli.journal.access import filter_of
        from beam_agents.cli.journal.pruning import moment_of
        from beam_agents.cli.journal.pruning import prune as prune_calls
        from beam_agents.cli.wording import counted
        from beam_agents.journals.clock import real_now_ms

        where = filter_of(namespace, entity, seq, call)
        report = prune_calls(uri, before_ms=moment_of(older_than, real_now_ms()), where=where)
        print(f"Deleted: {counted(report.calls, 'call')}, {counted(report.attempts, 'request')}")
        return 0

    exit_with(work)
