"""Reads keyed events from JSON lines, CSV or plain text; says in which line something is wrong."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import orjson

from beam_agents.cli.complaint import Complaint
from beam_agents.exporters.jsonl import open_lines

__all__ = ["FORMATS", "Format", "KeyedEvent", "format_of", "read_events"]

KeyedEvent: TypeAlias = tuple[str, Any]
"""A key and the event that it belongs to."""

Format: TypeAlias = Literal["jsonl", "csv", "text"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "text")

_BY_SUFFIX: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "text",
    ".text": "text",
    ".log": "text",
}
_SHOWN = 5
_VAST_NUMBER = re.compile(rb"[0-9]{19}")  # beyond 64 bits, the fast reader rounds


def format_of(path: str) -> Format:
    """The format that a file's name tells; `.gz` is looked through.

    Raises:
        Complaint: when the name tells none.
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() != ".gz"]
    found = _BY_SUFFIX.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise Complaint(f"the name {path} does not tell its format; add --format with one of {', '.join(FORMATS)}")
    return found


def read_events(path: str, *, key: str | None = None, format: Format | None = None) -> list[KeyedEvent]:
    """Every event of the file with its key; `-` reads standard input, gzip is unpacked.

    Args:
        path: the file.
        key: the field that holds the key. Without one, every event is a key of its own, named by its line.
        format: `jsonl`, `csv` or `text`; `None` goes by the file's name.

    Raises:
        Complaint: naming the lines that cannot be read, before anything is asked of a model.
    """
    form = format or ("jsonl" if path == "-" else format_of(path))
    if form == "text" and key is not None:
        raise Complaint(f"--key {key} has no meaning for lines of text, which have no fields; leave it out")
    wrong: list[str] = []
    found: list[KeyedEvent] = []
    name = "standard input" if path == "-" else path
    try:
        with sys.stdin.buffer if path == "-" else open_lines(path) as stream:
            for line, event in _READERS[form](stream, name, wrong):
                named = f"line-{line}" if key is None else _key(event, key, f"{name}, line {line}", wrong)
                found.append((named, event))
    except (OSError, EOFError, zlib.error) as error:
        raise Complaint(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if wrong:
        more = f"\nand {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise Complaint("\n".join(wrong[:_SHOWN]) + more)
    if not found:
        raise Complaint(f"{name} holds no events")
    return found


def _key(event: Any, field: str, where: str, wrong: list[str]) -> str:
    value: Any = event
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or value == "":
        fields = ", ".join(event) if isinstance(event, dict) else "none"
        wrong.append(f"{where}: no key, because the field {field!r} is missing or empty (its fields: {fields})")
        return ""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _json_lines(stream: BinaryIO, name: str, wrong: list[str]) -> Iterator[tuple[int, Any]]:
    for number, line in _numbered(stream):
        if not line:
            continue
        shown = line[:60].decode(errors="replace")
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            wrong.append(f"{name}, line {number}: this is not JSON ({error.msg}): {shown}")
            continue
        if not isinstance(event, dict):
            wrong.append(f"{name}, line {number}: an object {{…}} was expected, not {shown}")
            continue
        if _VAST_NUMBER.search(line) and json.loads(line) != event:
            wrong.append(f"{name}, line {number}: a whole number needs more than 64 bits; write it as text: {shown}")
            continue
        yield number, event


def _csv_rows(stream: BinaryIO, name: str, wrong: list[str]) -> Iterator[tuple[int, Any]]:
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    delimiter = "\t" if ".tsv" in name.lower() else ","
    reader = csv.DictReader(text, delimiter=delimiter, strict=True)
    try:
        header = reader.fieldnames or ()
        if len(set(header)) < len(header):
            wrong.append(f"{name}, line 1: two columns have the same name: {', '.join(header)}")
            return
        for row in reader:
            if None in row or None in row.values():
                wrong.append(
                    f"{name}, line {reader.line_num}: this row does not have the header's {len(header)} columns"
                )
                continue
            yield reader.line_num, dict(row)
    except (csv.Error, UnicodeDecodeError) as error:
        wrong.append(f"{name}, line {reader.line_num + 1}: this is not CSV ({error})")
    finally:
        text.detach()  # the caller closes the stream


def _text_lines(stream: BinaryIO, name: str, wrong: list[str]) -> Iterator[tuple[int, Any]]:
    for number, line in _numbered(stream):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            wrong.append(f"{name}, line {number}: this is not UTF-8 text ({error.reason})")
            continue
        if text:
            yield number, text


def _numbered(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines by number, without space around them and without a byte order mark."""
    for number, line in enumerate(stream, 1):
        yield number, (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()


_Reader: TypeAlias = Callable[[BinaryIO, str, list[str]], Iterator[tuple[int, Any]]]
_READERS: dict[Format, _Reader] = {"csv": _csv_rows, "jsonl": _json_lines, "text": _text_lines}
