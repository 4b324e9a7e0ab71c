"""Equal work in flight at once is done once, whoever is cancelled and whatever fails."""

from __future__ import annotations

import asyncio

import pytest

from beam_agents.model.single_flight import SingleFlight


class Work:
    """Work that waits for a gate at each run and counts its runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.gate = asyncio.Event()
        self.error: BaseException | None = None

    async def __call__(self) -> int:
        self.runs += 1
        run = self.runs
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return run


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


def joining(flights: SingleFlight[int], work: Work, count: int, key: str = "k") -> list[asyncio.Task]:
    return [asyncio.create_task(flights.join(key, work)) for _ in range(count)]


async def test_equal_keys_share_one_run_and_only_the_first_led():
    flights, work = SingleFlight[int](), Work()
    tasks = joining(flights, work, 50)
    await settle()
    work.gate.set()
    assert await asyncio.gather(*tasks) == [(1, False)] + [(1, True)] * 49
    assert work.runs == 1


async def test_other_keys_are_other_work():
    flights, work = SingleFlight[int](), Work()
    work.gate.set()
    results = await asyncio.gather(flights.join("a", work), flights.join("b", work))
    assert results == [(1, False), (2, False)]


async def test_work_that_has_landed_is_not_kept():
    flights, work = SingleFlight[int](), Work()
    work.gate.set()
    assert [await flights.join("k", work) for _ in range(3)] == [(1, False), (2, False), (3, False)]


async def test_followers_get_the_leader_s_error_itself():
    flights, work = SingleFlight[int](), Work()
    work.error = KeyError("gone")
    tasks = joining(flights, work, 5)
    await settle()
    work.gate.set()
    assert await asyncio.gather(*tasks, return_exceptions=True) == [work.error] * 5
    assert work.runs == 1
    work.error = None
    assert await flights.join("k", work) == (2, False)


async def test_a_cancelled_leader_hands_over_to_exactly_one_follower():
    flights, work = SingleFlight[int](), Work()
    tasks = joining(flights, work, 4)
    await settle()
    tasks[0].cancel()
    await settle()
    assert work.runs == 2
    work.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert sorted(results[1:], key=lambda result: result[1]) == [(2, False), (2, True), (2, True)]


async def test_leaders_cancelled_one_after_the_other_hand_over_each_time():
    flights, work = SingleFlight[int](), Work()
    tasks = joining(flights, work, 3)
    for task in tasks[:2]:
        await settle()
        task.cancel()
    await settle()
    work.gate.set()
    assert await tasks[2] == (3, False)


async def test_a_cancelled_follower_touches_nobody_else():
    flights, work = SingleFlight[int](), Work()
    tasks = joining(flights, work, 3)
    await settle()
    tasks[1].cancel()
    await settle()
    work.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert (results[0], results[2]) == ((1, False), (1, True))
    assert isinstance(results[1], asyncio.CancelledError)
    assert work.runs == 1


async def test_a_leader_cancelled_alone_leaves_nothing_behind():
    flights, work = SingleFlight[int](), Work()
    (task,) = joining(flights, work, 1)
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    work.gate.set()
    assert await flights.join("k", work) == (2, False)
