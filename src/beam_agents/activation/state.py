"""`ctx.state`: one JSON value per key."""

from __future__ import annotations

import math
from typing import Any

import orjson

from beam_agents.errors import StateTooLargeError

__all__ = ["STATE_LIMIT_BYTES", "decode_state", "encode_state"]

STATE_LIMIT_BYTES = 102_400
"""Largest state of one key, as JSON."""


def decode_state(stored: bytes) -> Any:
    """The value that was stored; `None` when there is none."""
    return orjson.loads(stored) if stored else None


def encode_state(value: Any) -> bytes:
    """The value as JSON; empty for `None`.

    Raises:
        TypeError: when it is not a JSON value.
        StateTooLargeError: when it takes more than `STATE_LIMIT_BYTES`.
    """
    if value is None:
        return b""
    try:
        encoded = orjson.dumps(value)
    except TypeError as error:
        raise TypeError(f"ctx.state must be a JSON value: {error}") from None
    if b"null" in encoded and _holds_odd_number(value):
        raise TypeError("ctx.state must be a JSON value, and NaN and infinity are none")
    if len(encoded) > STATE_LIMIT_BYTES:
        raise StateTooLargeError(len(encoded), STATE_LIMIT_BYTES)
    return encoded


def _holds_odd_number(value: Any) -> bool:
    """Whether a NaN or an infinity is in `value`, which would be written as `null`."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_holds_odd_number, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_holds_odd_number, value))
