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


class AnswersAtOnce(ActivationLoop):
    """The loop's thread is quicker than the one that asks."""

    def post(self, callback) -> None:
        callback()


def test_a_loop_that_answers_while_it_is_asked_is_not_stalled() -> None:
    running = AnswersAtOnce()
    try:
        assert running.stalled_s() == 0
    finally:
        running.close()


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
    seen: list[tuple[int, str]] = []
    done = threading.Event()
    for number in range(1_000):
        loop.post(lambda number=number: seen.append((number, threading.current_thread().name)))
    loop.post(done.set)
    assert done.wait(10)
    assert [number for number, _ in seen] == list(range(1_000))
    assert {thread for _, thread in seen} == {"beam-agents-loop"}
