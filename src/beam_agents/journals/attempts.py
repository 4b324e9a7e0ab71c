"""What a journal keeps of each request, in the form that all stores share."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal, NamedTuple, TypeAlias

import orjson

from beam_agents.ports import AttemptOutcome, CallIdentity
from beam_agents.values import TokenUsage

__all__ = [
    "CORRUPT",
    "INTENT",
    "LOST",
    "SET_ASIDE",
    "AttemptRow",
    "Ending",
    "State",
    "dump_fingerprint",
    "dump_usage",
    "load_fingerprint",
    "load_usage",
    "record_digest",
]

State: TypeAlias = Literal["intent", "answered", "failed", "in_doubt"]
"""What is known of a request: only the intent to send it, or how it ended."""

INTENT: Final = "intent"
"""State of a request whose end is not recorded."""

LOST = "Lost"
"""Error type of a request whose process died without a word."""

CORRUPT = "Corrupt"
"""Error type of an answered request whose stored answer is damaged."""

SET_ASIDE = "SetAside"
"""Error type of an answered request whose answer was given up, because its activation took another way."""


class AttemptRow(NamedTuple):
    """One request on the wire, as a store reads it back.

    `stored` are the bytes of the answer as they were stored, sealed or not; only the answer that stands has
    them. `key_id` names the key that sealed them. `lease_left_ms` is set for an intent of a live owner.
    """

    ordinal: int
    state: State
    error_type: str = ""
    status: int | None = None
    usage: str = ""
    key_id: str = ""
    digest: bytes | None = None
    stored: bytes | None = None
    lease_left_ms: float | None = None


class Ending(NamedTuple):
    """How a request ended, ready to be stored."""

    state: AttemptOutcome
    error_type: str = ""
    status: int | None = None
    usage: str = ""
    key_id: str = ""
    digest: bytes | None = None
    stored: bytes | None = None


def record_digest(call: CallIdentity, ordinal: int, usage: str, stored: bytes) -> bytes:
    """Digest that binds a stored answer and its usage to their record (32 bytes)."""
    digest = sha256(stored)
    digest.update(f"\0{usage}\0{call.scope}\0{call.call_id}\0{ordinal}".encode())
    return digest.digest()


def dump_usage(usage: TokenUsage | None) -> str:
    """Usage as text; empty when unknown."""
    if usage is None:
        return ""
    cached = "-" if usage.cached_tokens is None else usage.cached_tokens
    reasoning = "-" if usage.reasoning_tokens is None else usage.reasoning_tokens
    return f"{usage.prompt_tokens} {usage.completion_tokens} {usage.total_tokens} {cached} {reasoning}"


def load_usage(text: str) -> TokenUsage | None:
    """Inverse of `dump_usage`; what cannot be read is unknown."""
    parts = text.split(" ")
    if len(parts) != 5:
        return None
    try:
        prompt, completion, total = (int(part) for part in parts[:3])
        cached, reasoning = (None if part == "-" else int(part) for part in parts[3:])
    except ValueError:
        return None
    return TokenUsage(prompt, completion, total, cached, reasoning)


def dump_fingerprint(fingerprint: tuple[tuple[str, str], ...]) -> str:
    """A fingerprint as text; empty when there is none."""
    return orjson.dumps(fingerprint).decode() if fingerprint else ""


def load_fingerprint(text: str) -> tuple[tuple[str, str], ...]:
    """Inverse of `dump_fingerprint`."""
    if not text:
        return ()
    return tuple((str(path), str(digest)) for path, digest in orjson.loads(text))
