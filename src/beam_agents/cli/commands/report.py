"""The options of `beam-agents report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_agents.cli.ending import exit_with

__all__ = ["EXAMPLE", "report"]

EXAMPLE = "beam-agents report traces.jsonl errors.jsonl --output report.html"


def report(
    traces: Annotated[Path, typer.Argument(help="Trace events of a run, as JSON lines, also gzipped.")],
    errors: Annotated[Path | None, typer.Argument(help="Its dead letters.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; without it, Markdown goes to the terminal.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="html, json or md, when the name of the output does not tell.")
    ] = None,
    prices: Annotated[str | None, typer.Option(help="JSON file with prices of your own.")] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Trace events of a second run, to be put beside the first.")
    ] = None,
    compare_errors: Annotated[Path | None, typer.Option(help="Dead letters of the second run.")] = None,
) -> None:
    """Say what happened in a run, what it cost, and what it would have cost without stored answers."""

    def work() -> int:
        from beam_agents.cli.report import ReportOptions, write_report

        write_report(ReportOptions(traces, errors, output, format, prices, compare, compare_errors))
        return 0

    exit_with(work)
