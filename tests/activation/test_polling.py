from __future__ import annotations

import random

from beam_agents.activation.polling import Polling

KEY = b"k"


def begin(polling, key, now_ms):
    """The time of the first look at a key of which nothing is known yet."""
    return polling.renew(key, now_ms, progressed=False)


def looks(wait_ms, polling=None):
    """The times at which a key is looked at while it waits for `wait_ms` from 0, and when its end is seen."""
    polling, found = polling or Polling(), []
    now_ms = begin(polling, KEY, 0)
    while now_ms < wait_ms:
        found.append(now_ms)
        now_ms = polling.renew(KEY, now_ms, progressed=False)
    polling.end(KEY)
    return found, now_ms


def taught(draw, count=2_000):
    polling = Polling()
    for _ in range(count):
        polling.learn(draw())
    return polling


def test_the_first_look_is_on_the_grid():
    polling = Polling()
    assert begin(polling, KEY, 1_234) == 1_260
    assert polling.due_ms(KEY) == 1_260


def test_a_long_wait_costs_few_looks_and_ends_late_by_a_quarter_at_most():
    for wait_ms in (200, 1_000, 5_000, 60_000):
        found, seen_ms = looks(wait_ms)
        assert seen_ms - wait_ms <= max(40, wait_ms // 4)
        assert len(found) <= 20 + wait_ms // 1_000


def test_the_first_look_comes_when_three_activations_in_four_have_ended():
    rng = random.Random(1)
    polling = taught(lambda: int(rng.uniform(100, 300)))
    assert 210 <= begin(polling, KEY, 0) <= 300


def test_calls_that_take_the_same_time_cost_one_look_or_two():
    for wait_ms in (100, 200, 700):
        found, seen_ms = looks(wait_ms, taught(lambda took_ms=wait_ms: took_ms))
        assert len(found) <= 2
        assert seen_ms - wait_ms <= max(40, wait_ms // 4)


def test_a_few_slow_activations_do_not_make_the_others_wait():
    rng = random.Random(1)
    polling = taught(lambda: 5_000 if rng.random() < 0.05 else 200)
    assert begin(polling, KEY, 0) <= 300


def test_an_endpoint_that_has_become_fast_is_found_out():
    polling = taught(lambda: 5_000)
    assert begin(polling, b"slow", 0) == 1_000
    for _ in range(100):
        polling.learn(50)
    assert begin(polling, KEY, 0) <= 80


def test_progress_makes_the_looks_frequent_again():
    polling = Polling()
    begin(polling, KEY, 0)
    assert polling.renew(KEY, 8_000, progressed=False) == 9_000
    assert polling.renew(KEY, 9_000, progressed=True) == 9_020


def test_a_key_restored_from_a_checkpoint_is_looked_at_again():
    assert Polling().renew(KEY, 1_000, progressed=False) == 1_020
