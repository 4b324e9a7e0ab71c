"""The bounded cache of answers that travels in keyed state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from google.protobuf.message import DecodeError

from beam_agents.proto import LlmCacheBlob
from beam_agents.values import LlmResponse

__all__ = ["ReplayCache", "ReplayEntry"]

_SCHEMA_VERSION = 1
_MAX_ENTRIES = 64
_MAX_BLOB_BYTES = 102_400
_MAX_ENTRIES_BYTES = _MAX_BLOB_BYTES - 6  # version and total take 6 bytes where the blob is full, fewer elsewhere
_MAX_AGE_MS = 6 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ReplayEntry:
    """An answer as it was stored.

    Attributes:
        response: the verbatim bytes; empty when `digest_only`.
        response_digest: their sha256, 32 bytes.
        digest_only: the answer was too big to keep; only its digest is known.
        attempt_ordinal: ordinal of the request that the answer came from, 0 when unknown.
    """

    response: bytes
    response_digest: bytes
    digest_only: bool = False
    attempt_ordinal: int = 0

    @property
    def intact(self) -> bool:
        """Whether the bytes still have the digest that they were stored with."""
        return self.digest_only or sha256(self.response).digest() == self.response_digest


class ReplayCache:
    """Answers by cache key: at most 64 by least recent use, each for 6 hours, 102,400 bytes serialized in all.

    An answer that would not even fit an empty blob is kept by its digest alone. Not safe to share between
    threads; it belongs to one activation.

    Args:
        blob: a serialized `LlmCacheBlob`, or `None` for an empty cache.
        now_ms: the clock, or an `int` for a frozen one. An entry aged exactly 6 hours is still live.

    Raises:
        ValueError: when `blob` is not a cache blob, or was written by a newer version.
    """

    def __init__(self, blob: bytes | None = None, *, now_ms: Callable[[], int] | int) -> None:
        self._now_ms = now_ms if callable(now_ms) else lambda: now_ms
        self._entries: OrderedDict[str, LlmCacheBlob.Entry] = OrderedDict()
        self._framed_bytes: dict[str, int] = {}
        self._entries_bytes = 0
        self._response_bytes = 0
        self.dirty = False
        if blob:
            self._load(blob)

    def get(self, key: str) -> ReplayEntry | None:
        """The live entry of `key`, now the most recently used, or `None`."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        now_ms = self._now_ms()
        self.dirty = True
        if now_ms - entry.created_at_ms > _MAX_AGE_MS:
            self._remove(key)
            return None
        entry.last_access_ms = now_ms
        self._entries.move_to_end(key)
        return ReplayEntry(entry.response, entry.response_digest, entry.digest_only, entry.attempt_ordinal)

    def put(self, key: str, response: bytes | LlmResponse, *, attempt_ordinal: int = 0) -> None:
        """Store an answer under `key`, replacing an earlier one."""
        answer = response if isinstance(response, LlmResponse) else LlmResponse(bytes(response))
        now_ms = self._now_ms()
        entry = LlmCacheBlob.Entry(
            cache_key=key,
            response=answer.response,
            response_digest=answer.response_digest,
            created_at_ms=now_ms,
            last_access_ms=now_ms,
            attempt_ordinal=attempt_ordinal,
        )
        framed_bytes = _framed_bytes(entry)
        if framed_bytes > _MAX_ENTRIES_BYTES:
            entry.response = b""
            entry.digest_only = True
            framed_bytes = _framed_bytes(entry)
        self._add(entry, framed_bytes)
        self._evict()
        self.dirty = True

    def forget(self, key: str) -> None:
        """Drop the entry of `key`, if there is one."""
        if key in self._entries:
            self._remove(key)
            self.dirty = True

    def to_blob(self) -> bytes:
        """The cache as a serialized `LlmCacheBlob`, least recently used first."""
        blob = LlmCacheBlob(state_schema_version=_SCHEMA_VERSION, total_response_bytes=self._response_bytes)
        blob.entries.extend(self._entries.values())
        return blob.SerializeToString(deterministic=True)

    def __len__(self) -> int:
        return len(self._entries)

    def _load(self, blob: bytes) -> None:
        try:
            stored = LlmCacheBlob.FromString(blob)
        except DecodeError as error:
            raise ValueError(f"the replay cache blob of {len(blob)} bytes is not an LlmCacheBlob") from error
        if stored.state_schema_version > _SCHEMA_VERSION:
            raise ValueError(
                f"the replay cache was written with schema version {stored.state_schema_version}, "
                f"this version reads up to {_SCHEMA_VERSION}: upgrade beam-agents"
            )
        for entry in stored.entries:
            entry.created_at_ms += 0  # sets the field, if another writer left it out, so that sizes stay exact
            entry.last_access_ms += 0
            self._add(entry, _framed_bytes(entry))
        self._evict()

    def _add(self, entry: LlmCacheBlob.Entry, framed_bytes: int) -> None:
        key = entry.cache_key
        if key in self._entries:
            self._remove(key)
        self._entries[key] = entry
        self._framed_bytes[key] = framed_bytes
        self._entries_bytes += framed_bytes
        self._response_bytes += len(entry.response)

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key)
        self._entries_bytes -= self._framed_bytes.pop(key)
        self._response_bytes -= len(entry.response)

    def _evict(self) -> None:
        while len(self._entries) > _MAX_ENTRIES or self._entries_bytes > _MAX_ENTRIES_BYTES:
            self._remove(next(iter(self._entries)))
            self.dirty = True


def _framed_bytes(entry: LlmCacheBlob.Entry) -> int:
    """Bytes of the entry in the blob: tag, length, entry."""
    size: int = entry.ByteSize()
    return 1 + (size.bit_length() + 6) // 7 + size
