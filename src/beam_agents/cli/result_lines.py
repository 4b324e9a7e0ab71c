"""The files that a run writes: whole lines only, and under their own names only once the run is over."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import orjson
from pydantic import BaseModel

from beam_agents.cli.complaint import Complaint

__all__ = ["LineFile", "ResultPaths", "json_line", "to_json_value"]


@dataclass(frozen=True, slots=True)
class ResultPaths:
    """Where a run writes what agents emit, its trace events and its dead letters."""

    output: Path
    traces: Path
    errors: Path

    @classmethod
    def beside(cls, output: Path, traces: Path | None = None, errors: Path | None = None) -> ResultPaths:
        """`traces.jsonl` and `errors.jsonl` beside the output, unless given.

        Raises:
            Complaint: when two of them are one file, or their folder cannot be written to.
        """
        paths = cls(output, traces or output.parent / "traces.jsonl", errors or output.parent / "errors.jsonl")
        if len({path.resolve() for path in paths.all}) < 3:
            raise Complaint(
                f"output, traces and errors must be three files, not {', '.join(map(str, paths.all))}; "
                "choose others with --output, --traces and --errors"
            )
        for path in paths.all:
            _require_writable(path)
        return paths

    def spare(self, letters: Path) -> None:
        """Raises `Complaint` when one of them is there beside `letters`: the run that wrote those needs it still."""
        folder = letters.resolve().parent
        there = [str(path) for path in self.all if path.exists() and path.resolve().parent == folder]
        if there:
            raise Complaint(
                f"--retry-errors would replace {', '.join(there)} of the run before; name an --output in another "
                "folder, or each file with --output, --traces and --errors"
            )

    @property
    def all(self) -> tuple[Path, Path, Path]:
        """The three of them."""
        return self.output, self.traces, self.errors


class LineFile:
    """Collects lines in `NAME.part`, which becomes `NAME` when the run is over. Thread-safe.

    A run that is killed leaves `NAME` as it was, and whole lines in `NAME.part`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(path.name + ".part")
        self.lines = 0
        self._lock = Lock()
        self._descriptor: int | None = os.open(self.part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)

    def write(self, line: bytes) -> None:
        """Append one line, which ends with a newline."""
        with self._lock:
            if self._descriptor is None:
                return  # the run was given up
            view = memoryview(line)
            while view:
                view = view[os.write(self._descriptor, view) :]
            self.lines += 1

    def finish(self) -> None:
        """Give the file its name."""
        self.abandon()
        self.part.replace(self.path)

    def abandon(self) -> None:
        """Leave what was written in `NAME.part` and take no more. Idempotent."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def to_json_value(value: Any) -> Any:
    """`value` as JSON can hold it: Pydantic models, dataclasses, dates and the like become their usual form.

    Raises:
        TypeError: when it cannot be held by JSON.
    """
    return orjson.loads(json_line(value))


def json_line(value: Any) -> bytes:
    """`value` as one line of JSON. Raises `TypeError` like `to_json_value`."""
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        raise TypeError(f"what the agent emits must be JSON, a Pydantic model or a dataclass: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, str)):
        return list(value)
    raise TypeError(f"{type(value).__name__} is none of them")


def _require_writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Complaint(f"the folder {path.parent} cannot be made: {error.strerror}") from error
    if path.is_dir():
        raise Complaint(f"{path} is a folder; name a file in it")
    if not os.access(path.parent, os.W_OK):
        raise Complaint(f"the folder {path.parent} cannot be written to")
