"""The loop that every activation of a process runs on."""

from __future__ import annotations

import threading

import pytest

from beam_agents.activation.loop import ActivationLoop


@pytest.fixture
def loop():
    running = ActivationLoop()
    yield running
    running.close()


def test_a_loop_that_answers_at_once_is_never_stalled(loop) -> None:
    assert all(loop.stalled_s() < 60 for _ in range(5_000))


def test_a_blocked_loop_is_stalled_until_it_serves_again(loop) -> None:
    blocked, free = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        free.wait()

    loop.post(block)
    blocked.wait()
    loop.stalled_s()
    assert loop.stalled_s() > 0
    assert "wait" in loop.where()
    free.set()
    served = threading.Event()
    loop.post(served.set)
    assert served.wait(10)
    assert loop.stalled_s() < 60


def test_what_is_posted_runs_on_the_loop_in_order(loop) -> None:
    seen: list[tuple[int, int]] = []
    done = threading.Event()
    for number in range(1_000):
        loop.post(lambda number=number: seen.append((number, threading.get_ident())))
    loop.post(done.set)
    assert done.wait(10)
    assert [number for number, _ in seen] == list(range(1_000))
    assert {thread for _, thread in seen} == {loop.thread_id}
