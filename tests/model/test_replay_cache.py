"""The replay cache: its bounds on the wire, its order, its ages, and what it makes of strange blobs."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_agents.model import ReplayCache
from beam_agents.proto import LlmCacheBlob
from beam_agents.testing import ManualClock
from beam_agents.values import LlmResponse

MOST_BYTES = 102_400
SIX_HOURS_MS = 6 * 60 * 60 * 1_000


def key(n: int) -> str:
    return sha256(str(n).encode()).hexdigest()


def wire(cache: ReplayCache) -> LlmCacheBlob:
    return LlmCacheBlob.FromString(cache.to_blob())


def keys(cache: ReplayCache) -> list[str]:
    return [entry.cache_key for entry in wire(cache).entries]


def largest_that_fits(ordinal: int = 0) -> int:
    """Length of the largest response that an otherwise empty blob can hold, found on the real message."""
    entry = LlmCacheBlob.Entry(
        cache_key=key(0),
        response_digest=bytes(32),
        created_at_ms=0,
        last_access_ms=0,
        attempt_ordinal=ordinal,
    )
    size = MOST_BYTES
    while True:
        entry.response = bytes(size)
        blob = LlmCacheBlob(state_schema_version=1, entries=[entry], total_response_bytes=size)
        if blob.ByteSize() <= MOST_BYTES:
            return size
        size -= 1


# Put and get


def test_what_is_put_comes_back_with_its_digest_and_ordinal():
    cache = ReplayCache(now_ms=0)
    assert cache.get(key(1)) is None
    cache.put(key(1), LlmResponse(b"\x00\xffverbatim"), attempt_ordinal=3)
    entry = cache.get(key(1))
    assert (entry.response, entry.digest_only, entry.attempt_ordinal) == (b"\x00\xffverbatim", False, 3)
    assert entry.response_digest == sha256(b"\x00\xffverbatim").digest()
    assert entry.intact


@pytest.mark.parametrize("given_as", [b"same", bytearray(b"same"), LlmResponse(b"same")])
def test_bytes_and_responses_are_taken_alike(given_as):
    cache = ReplayCache(now_ms=0)
    cache.put(key(1), given_as)
    assert cache.get(key(1)).response == b"same"


def test_an_empty_response_is_an_answer():
    cache = ReplayCache(now_ms=0)
    cache.put(key(1), b"")
    entry = ReplayCache(cache.to_blob(), now_ms=0).get(key(1))
    assert (entry.response, entry.digest_only, entry.intact) == (b"", False, True)


def test_putting_again_replaces():
    cache = ReplayCache(now_ms=0)
    cache.put(key(1), b"old" * 1_000)
    cache.put(key(1), b"new")
    assert (len(cache), cache.get(key(1)).response) == (1, b"new")
    assert wire(cache).total_response_bytes == 3


def test_a_blob_brings_everything_back():
    cache = ReplayCache(now_ms=5)
    for n in range(10):
        cache.put(key(n), str(n).encode(), attempt_ordinal=n)
    again = ReplayCache(cache.to_blob(), now_ms=6)
    assert again.to_blob() == cache.to_blob()
    assert [again.get(key(n)).response for n in range(10)] == [str(n).encode() for n in range(10)]


def test_equal_contents_make_equal_bytes():
    one, two = ReplayCache(now_ms=5), ReplayCache(now_ms=5)
    for cache in (one, two):
        cache.put(key(1), b"a")
        cache.put(key(2), b"b")
    assert one.to_blob() == two.to_blob()


# Dirty


def test_only_what_changes_the_blob_makes_it_dirty():
    cache = ReplayCache(now_ms=0)
    assert not cache.dirty
    cache.get(key(1))
    assert not cache.dirty
    cache.put(key(1), b"a")
    assert cache.dirty
    loaded = ReplayCache(cache.to_blob(), now_ms=0)
    assert not loaded.dirty
    loaded.get(key(9))
    assert not loaded.dirty
    loaded.get(key(1))
    assert loaded.dirty


def test_an_expired_entry_makes_it_dirty():
    cache = ReplayCache(now_ms=0)
    cache.put(key(1), b"a")
    loaded = ReplayCache(cache.to_blob(), now_ms=SIX_HOURS_MS + 1)
    assert loaded.get(key(1)) is None
    assert loaded.dirty
    assert keys(loaded) == []


# Order


def test_the_least_recently_used_goes_first_and_stands_first_on_the_wire():
    clock = ManualClock(0)
    cache = ReplayCache(now_ms=clock)
    for n in range(64):
        cache.put(key(n), b"x")
    clock.advance(1)
    cache.get(key(0))
    cache.put(key(64), b"x")
    assert keys(cache) == [key(n) for n in [*range(2, 64), 0, 64]]
    stamps = {entry.cache_key: (entry.created_at_ms, entry.last_access_ms) for entry in wire(cache).entries}
    assert (stamps[key(0)], stamps[key(2)], stamps[key(64)]) == ((0, 1), (0, 0), (1, 1))


def test_order_survives_the_wire_even_where_times_are_equal_or_run_backwards():
    clock = ManualClock(1_000)
    cache = ReplayCache(now_ms=clock)
    for n in range(3):
        cache.put(key(n), b"x")
        clock.advance(-100)
    cache.get(key(0))
    assert keys(ReplayCache(cache.to_blob(), now_ms=clock)) == [key(1), key(2), key(0)]


def test_looking_for_what_is_not_there_changes_no_order():
    cache = ReplayCache(now_ms=0)
    for n in range(3):
        cache.put(key(n), b"x")
    cache.get(key(99))
    assert keys(cache) == [key(0), key(1), key(2)]


# Age


def test_an_entry_lives_six_hours_from_its_creation_the_last_millisecond_included():
    clock = ManualClock(1_000)
    cache = ReplayCache(now_ms=clock)
    cache.put(key(1), b"x")
    clock.advance(SIX_HOURS_MS)
    assert cache.get(key(1)) is not None
    clock.advance(1)
    assert cache.get(key(1)) is None
    assert len(cache) == 0


def test_use_does_not_lengthen_a_life_but_a_new_answer_does():
    clock = ManualClock(0)
    cache = ReplayCache(now_ms=clock)
    cache.put(key(1), b"x")
    cache.put(key(2), b"x")
    clock.advance(SIX_HOURS_MS)
    assert cache.get(key(1))
    cache.put(key(2), b"y")
    clock.advance(1)
    assert cache.get(key(1)) is None
    assert cache.get(key(2)).response == b"y"


def test_age_is_kept_over_the_wire():
    cache = ReplayCache(now_ms=100)
    cache.put(key(1), b"x")
    blob = cache.to_blob()
    assert ReplayCache(blob, now_ms=100 + SIX_HOURS_MS).get(key(1))
    assert ReplayCache(blob, now_ms=101 + SIX_HOURS_MS).get(key(1)) is None


# Size


@pytest.mark.parametrize("ordinal", [0, 1, 300])
def test_the_largest_answer_that_fits_an_empty_blob_is_kept_and_one_byte_more_is_not(ordinal):
    most = largest_that_fits(ordinal)
    cache = ReplayCache(now_ms=0)
    cache.put(key(0), bytes(most), attempt_ordinal=ordinal)
    assert len(cache.to_blob()) == MOST_BYTES
    assert not cache.get(key(0)).digest_only
    cache.put(key(0), bytes(most + 1), attempt_ordinal=ordinal)
    entry = cache.get(key(0))
    assert (entry.response, entry.digest_only, entry.intact) == (b"", True, True)
    assert entry.response_digest == sha256(bytes(most + 1)).digest()
    assert len(cache.to_blob()) < 300


def test_an_answer_kept_by_digest_evicts_nothing_for_its_bytes():
    cache = ReplayCache(now_ms=0)
    for n in range(1, 21):
        cache.put(key(n), bytes(4_900))
    before = keys(cache)
    cache.put(key(0), bytes(5_000_000))
    assert keys(cache) == [*before, key(0)]
    assert wire(cache).total_response_bytes == 20 * 4_900


def test_an_answer_that_fits_alone_evicts_as_many_as_it_must_and_no_more():
    cache = ReplayCache(now_ms=0)
    for n in range(1, 5):
        cache.put(key(n), bytes(25_000))
    cache.put(key(0), bytes(40_000))
    assert keys(cache) == [key(3), key(4), key(0)]
    assert MOST_BYTES - 25_000 < len(cache.to_blob()) <= MOST_BYTES


def test_touching_an_entry_never_changes_the_size_of_the_blob():
    clock = ManualClock(0)
    cache = ReplayCache(now_ms=clock)
    cache.put(key(0), bytes(largest_that_fits()))
    clock.advance(SIX_HOURS_MS)
    cache.get(key(0))
    assert len(cache.to_blob()) == MOST_BYTES


def test_an_empty_cache_is_two_bytes():
    assert ReplayCache(now_ms=0).to_blob() == b"\x08\x01"
    assert len(ReplayCache(b"", now_ms=0)) == 0


_sizes = st.one_of(
    st.integers(0, 300),
    st.integers(1_000, 9_000),
    st.integers(largest_that_fits() - 2, largest_that_fits() + 2),
    st.integers(40_000, 110_000),
)
_operations = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 80), _sizes),
    st.tuples(st.just("get"), st.integers(0, 80), st.just(0)),
    st.tuples(st.just("fill"), st.integers(60, 70), st.integers(0, 2_000)),
    st.tuples(st.just("wait"), st.just(0), st.sampled_from([1, SIX_HOURS_MS // 2, SIX_HOURS_MS, SIX_HOURS_MS + 1])),
    st.tuples(st.just("reload"), st.just(0), st.just(0)),
)


def size_of(entries: dict[str, LlmCacheBlob.Entry]) -> int:
    total = sum(len(entry.response) for entry in entries.values())
    return LlmCacheBlob(state_schema_version=1, entries=entries.values(), total_response_bytes=total).ByteSize()


class Model:
    """The cache as INTERFACE words it, measured with protobuf itself, at any cost in time."""

    def __init__(self) -> None:
        self.entries: dict[str, LlmCacheBlob.Entry] = {}

    def put(self, k: str, response: bytes, now: int) -> None:
        self.entries.pop(k, None)
        entry = LlmCacheBlob.Entry(cache_key=k, response=response, created_at_ms=now, last_access_ms=now)
        entry.response_digest = sha256(response).digest()
        if size_of({k: entry}) > MOST_BYTES:
            entry.response, entry.digest_only = b"", True
        self.entries[k] = entry
        while len(self.entries) > 64 or size_of(self.entries) > MOST_BYTES:
            del self.entries[next(iter(self.entries))]

    def get(self, k: str, now: int) -> LlmCacheBlob.Entry | None:
        entry = self.entries.pop(k, None)
        if entry is None or now - entry.created_at_ms > SIX_HOURS_MS:
            return None
        entry.last_access_ms = now
        self.entries[k] = entry
        return entry


@settings(max_examples=60, deadline=None)
@given(st.lists(_operations, max_size=25))
def test_any_order_of_operations_keeps_the_bounds_and_the_exact_bytes(operations):
    clock, model = ManualClock(0), Model()
    cache = ReplayCache(now_ms=clock)
    for name, n, amount in operations:
        if name == "put":
            cache.put(key(n), bytes(amount))
            model.put(key(n), bytes(amount), clock())
        elif name == "fill":
            for i in range(n):
                cache.put(key(i), bytes(amount))
                model.put(key(i), bytes(amount), clock())
        elif name == "get":
            found, expected = cache.get(key(n)), model.get(key(n), clock())
            assert (found and (found.response, found.digest_only)) == (
                expected and (expected.response, expected.digest_only)
            )
        elif name == "wait":
            clock.advance(amount)
        else:
            cache = ReplayCache(cache.to_blob(), now_ms=clock)
        blob = cache.to_blob()
        assert len(blob) <= MOST_BYTES
        assert len(blob) == size_of(model.entries)
        assert len(cache) <= 64
        stored = LlmCacheBlob.FromString(blob)
        assert list(stored.entries) == list(model.entries.values())
        assert stored.total_response_bytes == sum(len(entry.response) for entry in stored.entries)


# Strange blobs


def test_damaged_bytes_are_seen():
    cache = ReplayCache(now_ms=0)
    cache.put(key(1), b"whole")
    stored = wire(cache)
    stored.entries[0].response = b"whol3"
    damaged = ReplayCache(stored.SerializeToString(), now_ms=0).get(key(1))
    assert (damaged.response, damaged.intact) == (b"whol3", False)
    stored.entries[0].response_digest = b"short"
    assert not ReplayCache(stored.SerializeToString(), now_ms=0).get(key(1)).intact


@pytest.mark.parametrize("blob", [b"\xff", b"not a blob", b"\x12\x7f\x00"])
def test_what_is_no_blob_is_refused(blob):
    with pytest.raises(ValueError, match=rf"of {len(blob)} bytes is not an LlmCacheBlob"):
        ReplayCache(blob, now_ms=0)


def test_a_newer_version_is_refused_and_says_what_to_do():
    newer = LlmCacheBlob(state_schema_version=2).SerializeToString()
    with pytest.raises(ValueError, match="schema version 2, this version reads up to 1: upgrade beam-agents"):
        ReplayCache(newer, now_ms=0)


def test_a_blob_beyond_the_bounds_is_brought_back_within_them():
    entries = [
        LlmCacheBlob.Entry(cache_key=key(n), response=bytes(3_000), response_digest=bytes(32)) for n in range(100)
    ]
    blob = LlmCacheBlob(state_schema_version=1, entries=entries, total_response_bytes=7).SerializeToString()
    cache = ReplayCache(blob, now_ms=0)
    assert cache.dirty
    assert len(cache.to_blob()) <= MOST_BYTES
    assert keys(cache)[-1] == key(99)
    assert wire(cache).total_response_bytes == 3_000 * len(cache)


def test_of_entries_with_one_key_the_last_stands():
    entries = [LlmCacheBlob.Entry(cache_key=key(1), response=text) for text in (b"first", b"last")]
    cache = ReplayCache(LlmCacheBlob(state_schema_version=1, entries=entries).SerializeToString(), now_ms=0)
    assert (len(cache), cache.get(key(1)).response) == (1, b"last")
    assert wire(cache).total_response_bytes == 4


def test_sizes_stay_exact_where_another_writer_left_times_out():
    def written(size: int) -> LlmCacheBlob:
        entry = LlmCacheBlob.Entry(cache_key=key(0), response=bytes(size), response_digest=bytes(32))
        return LlmCacheBlob(state_schema_version=1, entries=[entry], total_response_bytes=size)

    full = written(MOST_BYTES - (written(MOST_BYTES).ByteSize() - MOST_BYTES))
    assert full.ByteSize() == MOST_BYTES
    cache = ReplayCache(full.SerializeToString(), now_ms=5)
    cache.get(key(0))
    assert len(cache.to_blob()) <= MOST_BYTES


def test_fields_that_this_version_does_not_know_are_kept():
    unknown = b"\x7a\x03abc"  # field 15, three bytes
    entry = LlmCacheBlob.Entry(cache_key=key(1), response=b"x", response_digest=sha256(b"x").digest())
    raw = entry.SerializeToString() + unknown
    blob = b"\x08\x01" + b"\x12" + bytes([len(raw)]) + raw
    cache = ReplayCache(blob, now_ms=0)
    assert cache.get(key(1)).response == b"x"
    assert unknown in cache.to_blob()
