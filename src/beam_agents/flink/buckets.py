"""The keys of a stream in a fixed number of buckets, so that whoever has the bucket can find its keys again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias
from zlib import crc32

from pyflink.common import Row, TypeInformation, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, KeyedStream, ProcessFunction

from beam_agents.activation.events import encode_event, encode_key
from beam_agents.flink.types import BYTES

__all__ = ["BUCKETS", "Bucketing", "KeyOf", "KeyedBucketing", "bucket_of", "in_buckets", "require_key"]

BUCKETS = (
    *(250, 89, 39, 220, 295, 136, 23, 73, 299, 195, 230, 36, 95, 42, 40, 49),
    *(13, 87, 157, 332, 55, 12, 1, 138, 238, 362, 348, 194, 16, 137, 116, 37),
    *(22, 53, 47, 212, 239, 141, 280, 107, 8, 176, 21, 923, 44, 143, 84, 132),
    *(113, 306, 119, 62, 3, 59, 79, 273, 101, 307, 24, 52, 29, 114, 25, 67),
)
"""Their numbers, of which Flink's hash puts one into every second of its 128 groups of keys: an equal share for each
subtask."""

KeyOf: TypeAlias = Callable[[Any], str | bytes]


def bucket_of(key: bytes) -> int:
    """The bucket of a key: the same in every process and for ever, because state lies there."""
    return BUCKETS[crc32(key) % len(BUCKETS)]


def in_buckets(stream: DataStream, key_of: KeyOf | None, name: str, uid: str) -> KeyedStream:
    """Rows of bucket, key and encoded event, keyed by bucket; the order of a key's events stays.

    Args:
        stream: the events, keyed by Flink unless there is `key_of`.
        key_of: the key of an event. One exchange and one stage in Python fewer than a keyed stream. But all events
            pass one subtask: were they spread over several before they have keys, those of a key could overtake
            each other.
        name: that of the step.
        uid: that of the step.
    """
    if key_of is None:
        rows = stream.process(KeyedBucketing(), output_type=_row())
    else:
        rows = stream.process(Bucketing(key_of), output_type=_row()).set_parallelism(1)
    return rows.name(f"keys of {name}").uid(f"{uid}.keys").key_by(_bucket, key_type=Types.INT())


def require_key(key: object) -> bytes:
    """The key as bytes. Raises `TypeError` for anything but text and bytes."""
    if isinstance(key, str):
        return encode_key(key)
    if isinstance(key, bytes):
        return key
    raise TypeError(f"keys must be str or bytes, not {type(key).__name__}: make the key a str or bytes")


class _Rows:
    """Puts each event behind its bucket and key, and wakes every bucket with the first event of a process.

    A row without an event wakes its bucket. So every bucket has its timers soon after a job has begun, and all of
    them are looked at as soon as anything comes after a restart.
    """

    def __init__(self) -> None:
        self._are_awake = False

    def of(self, key: bytes, event: Any) -> Iterable[Row]:
        yield Row(bucket_of(key), key, encode_event(event))
        if not self._are_awake:
            self._are_awake = True
            yield from (Row(bucket, None, None) for bucket in BUCKETS)


class Bucketing(ProcessFunction):  # type: ignore[misc]
    """The rows of events of a stream without keys."""

    def __init__(self, key_of: KeyOf) -> None:
        self._key_of = key_of
        self._rows = _Rows()

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Row]:
        """Called by Flink."""
        del ctx
        return self._rows.of(require_key(self._key_of(value)), value)


class KeyedBucketing(KeyedProcessFunction):  # type: ignore[misc]
    """The rows of events of a stream that has keys."""

    def __init__(self) -> None:
        self._rows = _Rows()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        """Called by Flink."""
        return self._rows.of(require_key(ctx.get_current_key()), value)


def _row() -> TypeInformation:
    return Types.ROW([Types.INT(), BYTES(), BYTES()])


def _bucket(row: Row) -> int:
    bucket: int = row[0]
    return bucket
