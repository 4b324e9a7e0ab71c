"""`beam-agents journal show` and `export`: the records themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beam_agents.cli.complaint import Complaint
from beam_agents.cli.journal.access import with_reader
from beam_agents.cli.wording import counted
from beam_agents.journals import JournalReader, JournalRecord, RecordFilter, record_to_json
from beam_agents.report.words import clock_text, key_text, number_text

__all__ = ["SHOWN_OF_ID", "export", "show"]

SHOWN_OF_ID = 12
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
    console.print(_table(found[:limit], answers=answers))
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


def _table(records: list[JournalRecord], *, answers: bool) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("began", no_wrap=True)
    table.add_column("namespace", overflow="fold")
    table.add_column("key", overflow="fold")
    for name in ("seq", "step"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("model", overflow="fold")
    table.add_column("call id", no_wrap=True)
    table.add_column("request", justify="right", no_wrap=True)
    table.add_column("ended", overflow="fold")
    for name in ("tokens", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    if answers:
        table.add_column("answer", overflow="fold")
    for record in records:
        table.add_row(*_row(record), *([_answer(record)] if answers else []))
    return table


def _row(record: JournalRecord) -> list[str | Text]:
    call, usage = record.call, record.usage
    return [
        clock_text(record.began_ms).removesuffix(" UTC"),
        Text(call.scope),
        Text(key_text(call.entity_key)),
        str(call.seq),
        str(call.step_index),
        Text("(step)" if call.kind == "step" else call.model_id),
        call.call_id[:SHOWN_OF_ID],
        str(record.ordinal),
        Text(_ending(record), style=_COLORS[record.outcome]),
        "" if usage is None else f"{number_text(usage.prompt_tokens)} + {number_text(usage.completion_tokens)}",
        number_text(record.stored_bytes) if record.stored_bytes else "",
    ]


def _ending(record: JournalRecord) -> str:
    how = record.outcome.replace("_", " ")
    why = " ".join(part for part in (record.error_type, str(record.status or "")) if part)
    return f"{how} ({why})" if why else how


def _answer(record: JournalRecord) -> Text:
    return Text("" if record.response is None else record.response.decode("utf-8", "replace"))
