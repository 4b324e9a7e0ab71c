"""Events as bytes in keyed state, and which of them JSON can hold."""

from __future__ import annotations

import pickle
from typing import Any

import orjson

__all__ = ["decode_event", "encode_event", "encode_key", "exact_json"]

_JSON_TYPES = (str, int, float, bool, type(None))


def encode_event(event: Any) -> bytes:
    """Text, bytes and JSON as what they are; anything else pickled. The first byte says which.

    Raises:
        TypeError: for an event that cannot be pickled.
    """
    if type(event) is bytes:
        return b"b" + event
    told = exact_json(event)
    return b"p" + _pickled(event) if told is None else b"j" + told


def encode_key(key: str) -> bytes:
    """A key of text as the bytes that it is. Raises `ValueError` for one that UTF-8 cannot hold."""
    try:
        return key.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(
            f"cannot write the key {key!r} as UTF-8, since it holds a lone surrogate: "
            'make it bytes, or clean it with key.encode("utf-8", "replace")'
        ) from None


def decode_event(stored: bytes) -> Any:
    """The event that was encoded. Raises `ValueError` for other bytes."""
    kind, data = stored[:1], stored[1:]
    if kind == b"b":
        return data
    if kind == b"j":
        return orjson.loads(data)
    if kind == b"p":
        return pickle.loads(data)
    raise ValueError(f"an event of {len(stored)} bytes in keyed state has the unknown kind {kind!r}")


def _pickled(event: Any) -> bytes:
    try:
        return pickle.dumps(event)
    except Exception as error:
        raise TypeError(
            f"an event of type {type(event).__module__}.{type(event).__qualname__} cannot be kept in state: {error}. "
            "Put its class into a module that the workers import, or send text, bytes or JSON"
        ) from error


def exact_json(value: object) -> bytes | None:
    """The value as JSON, or `None` where JSON would not give back exactly this value."""
    try:
        return orjson.dumps(value) if _has_json_types(value) else None
    except (TypeError, RecursionError):  # a lone surrogate, an int past 64 bits, a cycle
        return None


def _has_json_types(value: object) -> bool:
    """Whether JSON has exactly these types; tuples, NaN and subclasses are none of its."""
    kind = type(value)
    if kind is dict and isinstance(value, dict):
        return all(type(name) is str and _has_json_types(item) for name, item in value.items())
    if kind is list and isinstance(value, list):
        return all(map(_has_json_types, value))
    if kind is float and isinstance(value, float):
        return value - value == 0
    return kind in _JSON_TYPES
