"""Bounded memory: distributions, timelines, heaviest keys."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.report.distribution import Distribution
from beam_agents.report.heavy import HeavyKeys, TopFew
from beam_agents.report.problems import Kinds
from beam_agents.report.slices import CircuitSlice
from beam_agents.report.timeline import Timeline

VALUES = st.lists(st.floats(0, 1e9) | st.integers(0, 10**9), min_size=1, max_size=200)


@given(VALUES, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_within_one_percent(values: list[float], share: float) -> None:
    exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    assert Distribution(values).percentile(share) == pytest.approx(exact, rel=0.0101, abs=1e-12)


@given(VALUES)
def test_count_sum_and_extremes_are_exact(values: list[float]) -> None:
    known = Distribution(values)
    assert (known.count, known.least, known.greatest) == (len(values), min(values), max(values))
    assert known.sum == reduce(add, map(float, values), 0.0)  # from Python 3.12 on, sum() rounds better than adding


@given(VALUES, VALUES)
def test_merging_is_as_adding_all(left: list[float], right: list[float]) -> None:
    merged, whole = Distribution(left), Distribution(left + right)
    merged.merge(Distribution(right))
    shares = (0.1, 0.5, 0.95)
    assert [merged.percentile(share) for share in shares] == [whole.percentile(share) for share in shares]
    assert merged.bars() == whole.bars()


@given(VALUES)
def test_every_value_is_in_one_bar(values: list[float]) -> None:
    bars = Distribution(values).bars(10)
    assert sum(count for _, _, count in bars) == len(values)
    assert len(bars) <= 11


def test_without_values_there_is_no_percentile() -> None:
    assert Distribution().percentile(0.5) is None
    assert Distribution().mean is None
    assert Distribution().bars() == []


@given(st.lists(st.integers(-(10**13), 10**13), min_size=1, max_size=100))
def test_a_timeline_keeps_every_event_in_few_slices(times: list[int]) -> None:
    timeline: Timeline[CircuitSlice] = Timeline(CircuitSlice, at_most=16)
    for time_ms in times:
        timeline.at(time_ms).seen["closed"] += 1
    slices = list(timeline)
    assert len(slices) <= 16
    assert sum(one.seen["closed"] for _, one in slices) == len(times)
    for start_ms, one in slices:
        assert one.seen["closed"] == sum(start_ms <= time_ms < start_ms + timeline.width_ms for time_ms in times)


def test_up_to_its_capacity_the_heaviest_keys_are_exact() -> None:
    keys, rng = HeavyKeys(50), random.Random(1)
    exact: Counter[bytes] = Counter()
    for _ in range(2_000):
        key, tokens = b"%d" % rng.randrange(50), rng.randrange(100)
        keys.add(key, tokens, Decimal(tokens))
        exact[key] += tokens
    assert keys.exact
    assert {one.key: one.tokens for one in keys.heaviest(50)} == dict(exact)


def test_beyond_its_capacity_the_heavy_ones_are_still_found_in_bounded_memory() -> None:
    keys, rng = HeavyKeys(20), random.Random(2)
    for number in range(5_000):
        keys.add(b"light-%d" % number, 1, Decimal(0))
        keys.add(b"heavy-%d" % rng.randrange(3), 50, Decimal(1))
    assert len(keys) == 20
    assert not keys.exact
    assert {one.key for one in keys.heaviest(3)} == {b"heavy-0", b"heavy-1", b"heavy-2"}
    assert all(one.weight - one.error <= one.tokens + one.calls for one in keys.heaviest(20))


def test_the_few_greatest_are_kept_and_the_first_among_equals() -> None:
    top: TopFew[str] = TopFew(2)
    for weight, name in ((1, "a"), (3, "b"), (3, "c"), (3, "d"), (2, "e")):
        top.offer(weight, name)
    assert top.best() == ["b", "c"]


def test_kinds_keep_their_first_example_and_stay_few() -> None:
    kinds = Kinds()
    for number in range(500):
        kinds.add(f"kind-{number}", {"number": str(number), "empty": ""})
    kinds.add("kind-7", {"number": "again"})
    assert kinds.total() == 501
    by_count = kinds.by_count()
    assert (by_count[0].kind, by_count[0].count) == ("(other kinds)", 300)
    assert (by_count[1].kind, by_count[1].count, by_count[1].example) == ("kind-7", 2, {"number": "7"})
