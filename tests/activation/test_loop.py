"""The loop that every activation of a process runs on."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from beam_agents.activation.loop import ActivationLoop, activation_loop, close_activation_loop


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


def test_who_waits_for_a_blocked_loop_is_told_where_it_stands(loop) -> None:
    free = threading.Event()

    async def blocking() -> None:
        free.wait()

    try:
        with pytest.raises(RuntimeError, match=r"has blocked the activation loop for .* at wait"):
            loop.run_watched(blocking(), 0)
    finally:
        free.set()


def test_what_is_watched_gives_its_result(loop) -> None:
    async def answering() -> str:
        return "done"

    assert loop.run_watched(answering(), 10) == "done"


def test_what_is_posted_runs_on_the_loop_in_order(loop) -> None:
    seen: list[tuple[int, str]] = []
    done = threading.Event()
    for number in range(1_000):
        loop.post(lambda number=number: seen.append((number, threading.current_thread().name)))
    loop.post(done.set)
    assert done.wait(10)
    assert [number for number, _ in seen] == list(range(1_000))
    assert {thread for _, thread in seen} == {"beam-agents-loop"}


@pytest.fixture
def own_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    close_activation_loop()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("own_thresholds")
@pytest.mark.parametrize(("before", "then"), [(700, 25_000), (2_000, 25_000), (90_000, 90_000), (0, 0)])
def test_its_process_searches_for_garbage_less_often_unless_that_was_settled(before, then) -> None:
    close_activation_loop()
    gc.set_threshold(before, 10, 10)
    activation_loop()
    assert gc.get_threshold() == (then, 10, 10)
