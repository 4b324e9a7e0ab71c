"""The keys of a stream in a fixed number of buckets, so that whoever has the bucket can find its keys again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

from pyflink.common import Row, TypeInformation, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, KeyedStream

from beam_agents.activation.events import encode_event
from beam_agents.flink.types import BYTES

__all__ = ["BUCKETS", "Bucketing", "bucket_of", "in_buckets", "require_key"]

BUCKETS = 256


def bucket_of(key: bytes) -> int:
    """The bucket of a key: the same in every process and for ever, because state lies there."""
    return crc32(key) % BUCKETS


def in_buckets(keyed_stream: KeyedStream, name: str, uid: str) -> KeyedStream:
    """Rows of bucket, key and encoded event, keyed by bucket; the order of a key's events stays."""
    rows: DataStream = keyed_stream.process(Bucketing(), output_type=_row()).name(f"keys of {name}").uid(f"{uid}.keys")
    return rows.key_by(_bucket, key_type=Types.INT())


def require_key(key: object) -> bytes:
    """The key as bytes. Raises `TypeError` for anything but text and bytes."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"keys must be str or bytes, not {type(key).__name__}: use key_by(..., key_type=Types.STRING())")


class Bucketing(KeyedProcessFunction):  # type: ignore[misc]
    """Puts each event behind its bucket and key, and wakes every bucket with the first event of a process.

    A row without an event wakes its bucket. So every bucket has its timers soon after a job has begun, and all of
    them are looked at as soon as anything comes after a restart.
    """

    def __init__(self) -> None:
        self._are_awake = False

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        """Called by Flink."""
        key = require_key(ctx.get_current_key())
        yield Row(bucket_of(key), key, encode_event(value))
        if not self._are_awake:
            self._are_awake = True
            yield from (Row(bucket, None, None) for bucket in range(BUCKETS))


def _row() -> TypeInformation:
    return Types.ROW([Types.INT(), BYTES(), BYTES()])


def _bucket(row: Row) -> int:
    bucket: int = row[0]
    return bucket
