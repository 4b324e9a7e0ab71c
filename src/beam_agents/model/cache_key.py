"""The cache key: sha256 of the canonical JSON of a request and its position."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from math import isfinite
from types import NoneType
from typing import TypeAlias

import orjson

from beam_agents.values import Json, JsonObject

__all__ = ["canonical_json", "compute_cache_key"]

_Pending: TypeAlias = "tuple[bool, object]"

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
_PLAIN = frozenset((str, int, bool, NoneType))  # orjson refuses ints that it cannot write in full
_quoted = json.encoder.encode_basestring  # escapes quotes, backslashes and control characters only


def compute_cache_key(
    model_id: str,
    messages: Json,
    tools_schema: Json,
    sampling_params: JsonObject | None,
    entity_key: bytes,
    seq: int,
) -> str:
    """Lower-case hex sha256 of `{"key", "messages", "model", "params", "seq", "tools"}` as canonical JSON.

    Canonical means: keys sorted by code point, separators `,` and `:`, UTF-8 unescaped, floats in Python's
    shortest form, tuples as arrays. `key` is `entity_key` in hex.

    Raises:
        TypeError: for what JSON cannot hold, non-string keys included.
        ValueError: for NaN, infinities and lone surrogates.
    """
    if not isinstance(model_id, str):
        raise TypeError(f"model_id must be a str, not {type(model_id).__name__}")
    if not isinstance(entity_key, (bytes, bytearray, memoryview)):
        raise TypeError(f"entity_key must be bytes, not {type(entity_key).__name__}")
    if isinstance(seq, bool) or not isinstance(seq, int):
        raise TypeError(f"seq must be an int, not {type(seq).__name__}")
    material: dict[str, Json] = {
        "key": entity_key.hex(),
        "messages": messages,
        "model": model_id,
        "params": sampling_params,
        "seq": seq,
        "tools": tools_schema,
    }
    return sha256(canonical_json(material)).hexdigest()


def canonical_json(value: Json) -> bytes:
    """The canonical JSON of `value`; errors as in `compute_cache_key`."""
    try:
        written = orjson.dumps(value, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return _exact(value)
    return written if _orjson_is_exact_for(value) else _exact(value)


def _orjson_is_exact_for(value: object) -> bool:
    """Whether orjson writes `value`, which it could write, byte for byte as the definition says.

    Recursion is safe: orjson refuses what is nested deeper than 254.
    """
    kind = type(value)
    parts: Iterable[object]
    if kind is dict:
        parts = value.values()  # type: ignore[attr-defined]
    elif kind is list or kind is tuple:
        parts = value  # type: ignore[assignment]
    else:
        return kind in _PLAIN or (kind is float and _is_written_alike(value))  # type: ignore[arg-type]
    for part in parts:
        if type(part) in _PLAIN or _orjson_is_exact_for(part):
            continue
        return False
    return True


def _is_written_alike(number: float) -> bool:
    return number == 0 or 1e-3 <= abs(number) < 1e15


def _exact(root: object) -> bytes:
    """The definition itself, without recursion, so that depth is bounded by memory alone."""
    written: list[str] = []
    pending: list[_Pending] = [(False, root)]
    open_ids: set[int] = set()
    while pending:
        literal, value = pending.pop()
        if literal:
            if isinstance(value, str):
                written.append(value)
            else:
                open_ids.discard(value)
            continue
        if isinstance(value, (dict, list, tuple)):
            if id(value) in open_ids:
                raise ValueError("the request contains itself, JSON cannot hold that")
            open_ids.add(id(value))
            parts = _object_parts(value) if isinstance(value, dict) else _array_parts(value)
            pending.append((True, id(value)))
            pending.extend(reversed(parts))
        else:
            written.append(_scalar(value))
    try:
        return "".join(written).encode("utf-8")
    except UnicodeEncodeError as error:
        where = ascii(error.object[error.start : error.start + 1])
        raise ValueError(f"the request holds the lone surrogate {where}, UTF-8 cannot hold it") from None


def _object_parts(value: dict[str, object]) -> list[_Pending]:
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"keys must be str, not {type(key).__name__}: {key!r}")
    parts: list[_Pending] = []
    for key in sorted(value):
        parts.append((True, ("," if parts else "{") + _quoted(key) + ":"))
        parts.append((False, value[key]))
    return [*parts, (True, "}")] if parts else [(True, "{}")]


def _array_parts(value: list[object] | tuple[object, ...]) -> list[_Pending]:
    parts: list[_Pending] = []
    for item in value:
        parts.append((True, "," if parts else "["))
        parts.append((False, item))
    return [*parts, (True, "]")] if parts else [(True, "[]")]


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return _decimal(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"the request holds {value!r}, JSON cannot hold it")
        return float.__repr__(value)
    raise TypeError(f"the request holds a {type(value).__name__}, JSON cannot hold it")


def _decimal(value: int) -> str:
    try:
        return int.__repr__(value)
    except ValueError:  # the interpreter limits digits; a key must not depend on that limit
        digits, rest = [], abs(value)
        while rest:
            rest, low = divmod(rest, 10**600)
            digits.append(f"{low:0600d}")
        return ("-" if value < 0 else "") + "".join(reversed(digits)).lstrip("0")
