"""Keys in buckets. Runs where PyFlink is installed (requirements/flink.txt)."""

from __future__ import annotations

from pyflink.datastream import TimeDomain

from beam_agents.flink.buckets import BUCKETS, Bucketing, bucket_of
from tests.flink.engine import Engine


class Echo:
    """Puts out the rows that it gets."""

    def process_element(self, row, ctx):
        return [row]


def rows_of(bucketing, key, value):
    engine = Engine(Echo(), TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME, before=bucketing)
    return [tuple(row) for row in engine.element(key, value, 1)]


def test_a_key_stays_in_its_bucket_because_its_state_lies_there():
    assert [bucket_of(key) for key in (b"anna", b"ben", b"")] == [183, 225, 0]
    assert {bucket_of(b"%d" % n) for n in range(10_000)} == set(range(BUCKETS))


def test_the_first_event_of_a_process_wakes_every_bucket():
    bucketing = Bucketing()
    first = rows_of(bucketing, "anna", {"n": 1})
    assert first[0] == (183, b"anna", b'j{"n":1}')
    assert first[1:] == [(bucket, None, None) for bucket in range(BUCKETS)]
    assert rows_of(bucketing, "ben", "text") == [(225, b"ben", b'j"text"')]
