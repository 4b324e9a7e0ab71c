"""`beam-agents report`: from files of trace events to a page."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from beam_agents.cli.choices import one_of
from beam_agents.cli.complaint import Complaint
from beam_agents.cli.run_plan import price_book
from beam_agents.exporters.jsonl import JsonLineError
from beam_agents.report.build import build_report
from beam_agents.report.contents import Report
from beam_agents.report.formats import FORMATS, format_of
from beam_agents.report.money import PriceBook

__all__ = ["ReportOptions", "write_report"]


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The arguments of one report, as they were given."""

    traces: Path
    errors: Path | None = None
    output: Path | None = None
    format: str | None = None
    prices: str | None = None
    compare: Path | None = None
    compare_errors: Path | None = None


def write_report(options: ReportOptions) -> None:
    """Write the report to its file, or to standard output.

    Raises:
        Complaint: when a file cannot be read or written, or the format lacks its extra.
    """
    name = one_of("--format", options.format, sorted(FORMATS)) or format_of(str(options.output or ""))
    prices = price_book(options.prices)
    first = _built(options.traces, options.errors, prices)
    second = None if options.compare is None else _built(options.compare, options.compare_errors, prices)
    try:
        text = FORMATS[name].one(first) if second is None else FORMATS[name].two(first, second)
    except ImportError as error:
        raise Complaint(f"a report as {name} needs the extra `report`: pip install 'beam-agents[report]'") from error
    if options.output is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Complaint(f"{options.output} cannot be written: {error.strerror}") from error
    print(f"Written: {options.output}", file=sys.stderr)


def _built(traces: Path, errors: Path | None, prices: PriceBook) -> Report:
    try:
        return build_report([str(traces)], [] if errors is None else [str(errors)], prices=prices)
    except JsonLineError as error:
        raise Complaint(f"{error}; a report reads the traces.jsonl and errors.jsonl of a run") from error
    except (OSError, EOFError) as error:
        name = getattr(error, "filename", None) or traces
        raise Complaint(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
