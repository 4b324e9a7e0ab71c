"""The adaptive limit against simulated endpoints: one that becomes slower, and one whose requests queue."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

import pytest

from beam_agents.activation.pacing import AdaptiveLimit

CAP = 256
QUICK_MS = 200.0
CHANGES_AT_MS = 20_000


def _limits_of(took_ms: Callable[[float, int], float], seconds: int) -> list[tuple[int, float]]:
    """Limit and duration of the latest answer at the end of each second, with as many requests as the limit lets."""
    limit, random, now_ms, found = AdaptiveLimit(CAP), Random(1), 0.0, []
    in_flight: list[tuple[float, float]] = []
    while len(found) < seconds:
        while len(in_flight) < limit.limit:
            due_ms = now_ms + took_ms(now_ms, len(in_flight) + 1) * random.uniform(0.7, 1.4)
            heapq.heappush(in_flight, (due_ms, now_ms))
        now_ms, since_ms = heapq.heappop(in_flight)
        limit.served(int(now_ms), now_ms - since_ms, len(in_flight) + 1)
        found += [(limit.limit, now_ms - since_ms)] * (int(now_ms / 1000) - len(found))
    return found


@pytest.mark.parametrize(("factor", "within_s"), [(3.5, 25), (5, 30), (10, 45), (30, 100)])
def test_an_endpoint_that_becomes_slower_for_good_is_soon_asked_as_much_as_before(factor: float, within_s: int) -> None:
    found = _limits_of(lambda now_ms, _: QUICK_MS * (factor if now_ms > CHANGES_AT_MS else 1), 200)
    limits = [limit for limit, _ in found]
    assert min(limits) < CAP / 2  # it was tried with less first
    assert min(limits[CHANGES_AT_MS // 1000 + within_s :]) > 0.9 * CAP


@pytest.mark.parametrize("served_a_second", [40, 128, 320])
def test_an_endpoint_whose_requests_queue_stays_relieved(served_a_second: int) -> None:
    """1,280 a second are served first, and then so few; the same limit would mean seconds of waiting."""

    def took_ms(now_ms: float, in_flight: int) -> float:
        rate = served_a_second if now_ms > CHANGES_AT_MS else 1_280
        return max(QUICK_MS, in_flight / rate * 1_000)

    late = _limits_of(took_ms, 180)[-90:]
    assert sum(ms for _, ms in late) / len(late) < 5 * QUICK_MS
    assert min(limit for limit, _ in late) > 0.05 * served_a_second  # and it is not starved


def test_what_is_usual_follows_a_slow_rise_by_time_however_few_answers_there_are() -> None:
    limit = AdaptiveLimit(4)
    for second in range(3_600):
        limit.served(second * 1_000, 200 * 3 ** (second / 600), 4)
    assert limit.limit == 4
