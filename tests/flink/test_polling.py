from __future__ import annotations

from beam_agents.flink.polling import Polling

KEY = b"k"


def looks(wait_ms):
    """The times at which a key is looked at while it waits for `wait_ms` from 0."""
    polling, found = Polling(), []
    now_ms = polling.begin(KEY, 0)
    while now_ms is not None and now_ms < wait_ms:
        found.append(now_ms)
        now_ms = polling.renew(KEY, now_ms, progressed=False)
    return found, now_ms


def test_the_first_look_is_on_the_grid_after_at_least_100_ms():
    polling = Polling()
    assert polling.begin(KEY, 1_234) == 1_400
    assert polling.begin(KEY, 1_300) is None


def test_a_long_wait_costs_few_looks_and_ends_late_by_a_quarter_at_most():
    for wait_ms in (200, 1_000, 5_000, 60_000):
        found, seen_ms = looks(wait_ms)
        assert seen_ms - wait_ms <= max(200, wait_ms // 4)
        assert len(found) <= 12 + wait_ms // 1_000


def test_progress_makes_the_looks_frequent_again():
    polling = Polling()
    polling.begin(KEY, 0)
    assert polling.renew(KEY, 8_000, progressed=False) == 9_000
    assert polling.renew(KEY, 9_000, progressed=True) == 9_100


def test_an_older_timer_is_superseded_by_a_later_one():
    polling = Polling()
    polling.begin(KEY, 0)
    assert polling.is_superseded(KEY, 50)
    assert not polling.is_superseded(KEY, 100)
    polling.end(KEY)
    assert not polling.is_superseded(KEY, 0)


def test_a_key_restored_from_a_checkpoint_is_looked_at_again():
    assert Polling().renew(KEY, 1_000, progressed=False) == 1_100
