"""Events as bytes in keyed state."""

from __future__ import annotations

import pickle
from typing import Any

import orjson

__all__ = ["decode_event", "encode_event"]

_JSON_TYPES = (str, int, float, bool, type(None))


def encode_event(event: Any) -> bytes:
    """Text, bytes and JSON as what they are; anything else pickled. The first byte says which."""
    if type(event) is bytes:
        return b"b" + event
    if _is_json(event):
        try:
            return b"j" + orjson.dumps(event)
        except TypeError:  # a lone surrogate, an int past 64 bits
            pass
    return b"p" + pickle.dumps(event)


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


def _is_json(value: object) -> bool:
    """Whether JSON gives back a value of exactly these types; tuples, NaN and subclasses are not."""
    kind = type(value)
    if kind is dict and isinstance(value, dict):
        return all(type(name) is str and _is_json(item) for name, item in value.items())
    if kind is list and isinstance(value, list):
        return all(map(_is_json, value))
    if kind is float and isinstance(value, float):
        return value - value == 0
    return kind in _JSON_TYPES
