"""Trace events as lines of JSON: one object a line, readable by people and by every tool.

An entity key that is UTF-8 text is written as that text; any other key as `{"hex": "…"}`. Ids are lower-case
hex, times are milliseconds since the epoch, attributes are strings. Both directions keep every field.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Generic, TypeVar

import orjson

from beam_agents.proto import TraceEvent
from beam_agents.values import Json, JsonObject

__all__ = [
    "EventWriter",
    "JsonLineError",
    "JsonLines",
    "entity_key_from_json",
    "entity_key_to_json",
    "event_from_json",
    "event_to_json",
    "open_lines",
    "read_events",
]

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is refused rather than loaded."""

_T = TypeVar("_T")
_IDS = ("trace_id", "span_id", "parent_span_id")
_INTS = ("seq", "step_index", "start_ms", "end_ms")
_GZIP_MAGIC = b"\x1f\x8b"


class JsonLineError(ValueError):
    """Line `line` (counted from 1) of `name` cannot be read; the message says why."""

    def __init__(self, name: str, line: int, why: str) -> None:
        super().__init__(f"{name}, line {line}: {why}")
        self.name = name
        self.line = line
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.line, self.why)


def entity_key_to_json(key: bytes) -> str | dict[str, str]:
    """The key as text when it is UTF-8, else `{"hex": "…"}`; `entity_key_from_json` turns it back."""
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": key.hex()}


def entity_key_from_json(value: Json) -> bytes:
    """The bytes that `entity_key_to_json` was given.

    Raises:
        ValueError: for anything that it does not write.
    """
    if isinstance(value, str):
        return value.encode("utf-8")
    digits = value.get("hex") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(digits, str):
        raise ValueError(f'entity_key must be text or {{"hex": "…"}}, not {value!r:.80}')
    return bytes.fromhex(digits)


def event_to_json(event: TraceEvent) -> dict[str, Any]:
    """`event` as a JSON object: every field, attributes sorted by name, an unknown event type as its number."""
    kind = event.event_type
    return {
        "event_type": TraceEvent.EventType.Name(kind) if kind in TraceEvent.EventType.values() else kind,
        "trace_id": event.trace_id.hex(),
        "span_id": event.span_id.hex(),
        "parent_span_id": event.parent_span_id.hex(),
        "entity_key": entity_key_to_json(event.entity_key),
        "seq": event.seq,
        "step_index": event.step_index,
        "start_ms": event.start_ms,
        "end_ms": event.end_ms,
        "attributes": dict(sorted(event.attributes.items())),
    }


def event_from_json(value: JsonObject) -> TraceEvent:
    """The event that `event_to_json` was given. Absent fields take their defaults, unknown ones are ignored.

    Raises:
        ValueError: when a field has the wrong type; the message names it.
    """
    attributes = _typed(value, "attributes", dict, {})
    event = TraceEvent(event_type=_event_type(value.get("event_type", 0)))
    for name in _IDS:
        setattr(event, name, bytes.fromhex(_typed(value, name, str, "")))
    for name in _INTS:
        setattr(event, name, _typed(value, name, int, 0))
    event.entity_key = entity_key_from_json(value.get("entity_key", ""))
    for name, text in attributes.items():
        if not isinstance(text, str):
            raise ValueError(f"attribute {name} must be a string, not {text!r:.80}")
        event.attributes[name] = text
    return event


def _typed(value: JsonObject, name: str, kind: type[_T], default: _T) -> _T:
    found = value.get(name, default)
    if not isinstance(found, kind) or isinstance(found, bool):
        raise ValueError(f"{name} must be {kind.__name__}, not {found!r:.80}")
    return found


def _event_type(value: Json) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value in TraceEvent.EventType.keys():  # noqa: SIM118 - an enum wrapper, no mapping
        return TraceEvent.EventType.Value(value)
    raise ValueError(f"event_type must be one of {', '.join(TraceEvent.EventType.keys())}, not {value!r:.80}")


class JsonLines(Generic[_T]):
    """Reads one value a line, holding one line at a time. Iterate over it once.

    Blank lines are skipped. A last line without its newline that cannot be read was cut by a process that
    died while writing: it is left out and its number is in `cut_line`. Any other bad line raises.

    Attributes:
        cut_line: number of the cut last line, or `None`. Known once the iteration has ended.
        lines: lines read so far.

    Raises:
        JsonLineError: while iterating, naming the line.
    """

    def __init__(self, stream: BinaryIO, parse: Callable[[Any], _T], *, name: str = "input") -> None:
        self.cut_line: int | None = None
        self.lines = 0
        self._stream = stream
        self._parse = parse
        self._name = name

    def __iter__(self) -> Iterator[_T]:
        while line := self._stream.readline(MAX_LINE_BYTES):
            self.lines += 1
            if len(line) >= MAX_LINE_BYTES:
                raise JsonLineError(self._name, self.lines, f"longer than {MAX_LINE_BYTES} bytes")
            if not line.strip():
                continue
            try:
                value = self._read(line)
            except ValueError as error:
                if line.endswith(b"\n"):
                    raise JsonLineError(self._name, self.lines, str(error)) from error
                self.cut_line = self.lines
                return
            yield value

    def _read(self, line: bytes) -> _T:
        value = orjson.loads(line)
        if not isinstance(value, dict):
            raise ValueError(f"a JSON object was expected, not {value!r:.80}")
        return self._parse(value)


def open_lines(path: str) -> BinaryIO:
    """Open `path` for reading, unpacking it when it is gzip-compressed."""
    stream = open(path, "rb")  # noqa: SIM115 - the caller closes it
    if stream.peek(2)[:2] != _GZIP_MAGIC:
        return stream
    stream.close()
    return io.BufferedReader(gzip.open(path))


def read_events(stream: BinaryIO, *, name: str = "traces") -> JsonLines[TraceEvent]:
    """The events in `stream`, one line at a time. `name` names the input in errors."""
    return JsonLines(stream, event_from_json, name=name)


class EventWriter:
    """An exporter that appends events to a file, one line each, whole lines only.

    `export` never raises: what cannot be written is counted in `dropped`, and `last_error` says why.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.exported = 0
        self.dropped = 0
        self.last_error = ""
        self._stream = stream

    @classmethod
    def to_path(cls, path: str) -> EventWriter:
        """Append to the file at `path`; raises `OSError` when it cannot be opened."""
        return cls(open(path, "ab"))

    def export(self, events: Iterable[TraceEvent]) -> None:
        """Write `events`; those that cannot be written are counted, never raised."""
        for event in events:
            try:
                self._stream.write(orjson.dumps(event_to_json(event), option=orjson.OPT_APPEND_NEWLINE))
            except (OSError, ValueError) as error:
                self.dropped += 1
                self.last_error = f"{type(error).__name__}: {error}"
            else:
                self.exported += 1

    def flush(self, timeout_ms: int = 10_000) -> bool:  # noqa: ARG002 - a file has no time limit
        """Hand everything to the operating system; `False` when that failed."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self.last_error = f"{type(error).__name__}: {error}"
            return False
        return True

    def close(self) -> None:
        """Flush and close the file. Idempotent."""
        if self._stream.closed:
            return
        try:
            self._stream.close()
        except OSError as error:
            self.last_error = f"{type(error).__name__}: {error}"
