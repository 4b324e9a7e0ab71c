"""`beam-agents journal show` and `export`: the records themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beam_agents.cli.complaint import Complaint
from beam_agents.cli.journal.access import with_reader
from beam_agents.cli.printable import plain
from beam_agents.cli.wording import counted
from beam_agents.journals import JournalReader, JournalRecord, RecordFilter, record_to_json
from beam_agents.report.words import clock_text, key_text, number_text

__all__ = ["SHOWN_OF_ID", "export", "show"]

SHOWN_OF_ID = 10
"""How many characters of a call id are shown; as many name it on the command line."""

_COLORS = {"answered": "green", "failed": "red", "in_doubt": "yellow", "waiting": "cyan"}


def show(uri: str, where: RecordFilter, *, limit: int, answers: bool, as_json: bool) -> None:
    """Print the first `limit` records. Raises `Complaint` when they cannot be read."""
    if limit < 1:
        raise Complaint(f"--limit must be at least 1, not {limit}")

    async def first(reader: JournalReader) -> list[JournalRecord]:
        found: list[JournalRecord] = []
        async for record in reader.records(where, answers=answers):
            found.append(record)
            if len(found) > limit:
                break
        return found

    found = with_reader(uri, first)
    if as_json:
        for record in found[:limit]:
            print(record_to_json(record).decode())
        return
    console = Console()
    if not found:
        console.print("No records.")
        return
    for scope, records in groupby(found[:limit], key=lambda record: record.call.scope):
        console.print(plain(scope or "(no namespace)", "bold"), soft_wrap=True)
        if answers:
            _show_answers(console, list(records))
        else:
            console.print(_table(records))
    if len(found) > limit:
        console.print(f"[dim]There are more than {limit:,}; see them with --limit, or narrow the search.[/]")


def export(uri: str, where: RecordFilter, *, output: Path | None, answers: bool) -> None:
    """Write every record as a line of JSON. Raises `Complaint` when they cannot be read or written."""
    if output is None:
        _write(uri, where, lambda line: _ignore(sys.stdout.buffer.write(line)), answers=answers)
        sys.stdout.buffer.flush()
        return
    part = output.with_name(output.name + ".part")
    try:
        with part.open("wb") as file:
            count = _write(uri, where, lambda line: _ignore(file.write(line)), answers=answers)
        part.replace(output)
    except OSError as error:
        raise Complaint(f"{output} cannot be written: {error.strerror}") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    print(f"Written: {counted(count, 'record')} to {output}", file=sys.stderr)


def _write(uri: str, where: RecordFilter, write: Callable[[bytes], None], *, answers: bool) -> int:
    async def write_all(reader: JournalReader) -> int:
        count = 0
        async for record in reader.records(where, answers=answers):
            write(record_to_json(record) + b"\n")
            count += 1
        return count

    return with_reader(uri, write_all)


def _ignore(written: int) -> None:
    """`write` returns a count that nobody needs."""


def _table(records: Iterable[JournalRecord]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("began (UTC)", no_wrap=True)
    table.add_column("key", overflow="fold", min_width=4)
    for name in ("seq", "step"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("asks", overflow="fold", min_width=6)
    table.add_column("call id", no_wrap=True)
    table.add_column("ended", overflow="fold", min_width=8)
    table.add_column("tokens", justify="right", no_wrap=True)
    for record in records:
        table.add_row(*_row(record))
    return table


def _row(record: JournalRecord) -> list[str | Text]:
    call, usage = record.call, record.usage
    return [
        clock_text(record.began_ms).removesuffix(" UTC"),
        plain(key_text(call.entity_key)),
        str(call.seq),
        str(call.step_index),
        plain("(step)" if call.kind == "step" else call.model_id),
        call.call_id[:SHOWN_OF_ID],
        plain(_ending(record), _COLORS[record.outcome]),
        "" if usage is None else f"{number_text(usage.prompt_tokens)} + {number_text(usage.completion_tokens)}",
    ]


def _show_answers(console: Console, records: list[JournalRecord]) -> None:
    for record in records:
        call = record.call
        asks = "(step)" if call.kind == "step" else call.model_id
        place = (
            f"{key_text(call.entity_key)}, seq {call.seq}, step {call.step_index}, {asks}, {call.call_id[:SHOWN_OF_ID]}"
        )
        console.print(plain(f"{place}: {_ending(record)}", _COLORS[record.outcome]), soft_wrap=True)
        if record.response is not None:
            console.print(plain(record.response.decode("utf-8", "replace")), soft_wrap=True)


def _ending(record: JournalRecord) -> str:
    how = record.outcome.replace("_", " ")
    why = " ".join(part for part in (record.error_type, str(record.status or "")) if part)
    nth = f"request {record.ordinal} " if record.ordinal > 1 else ""
    return f"{nth}{how} ({why})" if why else f"{nth}{how}"
