"""Keys in buckets. Runs where PyFlink is installed (requirements/flink.txt)."""

from __future__ import annotations

import pytest
from pyflink.datastream import TimeDomain

from beam_agents.flink.buckets import BUCKETS, Bucketing, KeyedBucketing, bucket_of
from tests.flink.engine import Engine


class Echo:
    """Puts out the rows that it gets."""

    def process_element(self, row, ctx):
        return [row]


def rows_of(bucketing, key, value):
    engine = Engine(Echo(), TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME, before=bucketing)
    return [tuple(row) for row in engine.element(key, value, 1)]


def test_a_key_stays_in_its_bucket_because_its_state_lies_there():
    assert [bucket_of(key) for key in (b"anna", b"ben", b"")] == [273, 53, 250]
    assert {bucket_of(b"%d" % n) for n in range(10_000)} == set(BUCKETS)


@pytest.mark.parametrize("bucketing", [KeyedBucketing(), Bucketing(lambda event: event["by"])], ids=["keyed", "key_by"])
def test_the_first_event_of_a_process_wakes_every_bucket(bucketing):
    first = rows_of(bucketing, "anna", {"by": "anna"})
    assert first[0] == (273, b"anna", b'j{"by":"anna"}')
    assert first[1:] == [(bucket, None, None) for bucket in BUCKETS]
    assert rows_of(bucketing, "ben", {"by": "ben"}) == [(53, b"ben", b'j{"by":"ben"}')]


@pytest.mark.parametrize("bucketing", [KeyedBucketing(), Bucketing(int)], ids=["keyed", "key_by"])
def test_a_key_is_text_or_bytes(bucketing):
    with pytest.raises(TypeError, match="keys must be str or bytes, not int"):
        rows_of(bucketing, 7, "7")


def test_a_key_that_utf8_cannot_hold_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"key 'k\\ud83d' as UTF-8.*make it bytes"):
        rows_of(Bucketing(str), "k", "k\ud83d")
