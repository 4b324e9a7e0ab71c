"""JSON bodies: fast for ordinary ones, tolerant where the fast reader would lose an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from beam_agents.errors import ResponseDecodeError

__all__ = ["arguments_text", "as_text", "dump_body", "dump_text", "parse_answer", "parse_body"]


_MOST_DIGITS = 4_300  # of an int that Python reads


def parse_body(body: bytes, *, exact: bool = False) -> Any:
    """The value in a response body.

    Reads what models really write beyond the standard: lone surrogate escapes, NaN and a byte order mark, which
    must not cost a paid answer. Whole numbers beyond 64 bits are rounded, unless `exact` asks for the slower reader.

    Raises:
        ValueError: when the body is not JSON.
    """
    if not exact:
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(body, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("the body is nested too deeply") from error


def dump_body(value: Mapping[str, Any]) -> bytes:
    """A request body as JSON.

    Raises:
        TypeError, ValueError: for a value that JSON cannot hold.
    """
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        pass
    try:
        return json.dumps(value, allow_nan=False, default=_plain, separators=(",", ":")).encode()
    except RecursionError as error:
        raise ValueError("the request is nested too deeply") from error


def dump_text(value: Any) -> str:
    """A value read from an answer, as JSON text again.

    Raises:
        ResponseDecodeError: when it is nested too deeply.
    """
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        pass
    try:
        return json.dumps(value, separators=(",", ":"))
    except RecursionError as error:
        raise ResponseDecodeError("the answer is nested too deeply") from error


def arguments_text(value: Any) -> str:
    """A tool call's arguments as JSON text; some servers send an object where text is promised, or the reverse."""
    return value if isinstance(value, str) and value else dump_text(value or {})


def parse_answer(body: bytes, *, exact: bool = False) -> Mapping[str, Any]:
    """The object in a stored answer; `exact` as in `parse_body`.

    Raises:
        ResponseDecodeError: when the bytes are not a JSON object.
    """
    try:
        answer = parse_body(body, exact=exact)
    except ValueError as error:
        raise ResponseDecodeError("the answer is not JSON") from error
    if not isinstance(answer, dict):
        raise ResponseDecodeError(f"the answer is a JSON {type(answer).__name__}, not an object")
    return answer


def as_text(value: object) -> str | None:
    """`value` when it is a string, else `None`."""
    return value if isinstance(value, str) else None


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a request to a model")
