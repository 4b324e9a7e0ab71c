"""Threads for plain functions that may block."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from beam_agents.activation.threads import Threads

_PATIENCE_S = 20


async def test_as_many_steps_as_activations_run_at_once(run: Any) -> None:
    together = threading.Barrier(40)

    async def agent(ctx: Any, event: Any) -> Any:
        await asyncio.gather(*(ctx.step(str(n), lambda: together.wait(_PATIENCE_S)) for n in range(40)))
        return "met"

    assert (await run(agent, max_in_flight=40)).outputs == ("met",)


async def test_a_function_that_nobody_waits_for_any_more_keeps_its_place_until_it_returns() -> None:
    threads, started, ending = Threads(1), threading.Event(), threading.Event()

    def hangs() -> None:
        started.set()
        ending.wait(_PATIENCE_S)

    given_up = asyncio.ensure_future(threads.call(hangs, ()))
    await asyncio.to_thread(started.wait, _PATIENCE_S)
    given_up.cancel()
    following = asyncio.ensure_future(threads.call(len, ("abc",)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (given_up.cancelled(), following.done()) == (True, False)
    ending.set()
    assert await following == 3


async def test_the_end_of_the_process_does_not_wait_for_them() -> None:
    assert await Threads(1).call(lambda: threading.current_thread().daemon, ())


async def test_what_a_function_raises_is_raised_and_frees_its_place() -> None:
    threads = Threads(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="abc"):
            await threads.call(int, ("abc",))


async def test_a_function_sees_the_context_of_its_caller() -> None:
    who: ContextVar[str] = ContextVar("who")
    who.set("caller")
    assert await Threads(1).call(who.get, ()) == "caller"


def test_a_function_may_outlive_the_loop() -> None:
    started, ending, over = threading.Event(), threading.Event(), threading.Event()

    def hangs() -> None:
        started.set()
        ending.wait(_PATIENCE_S)
        over.set()

    async def give_up() -> None:
        given_up = asyncio.ensure_future(Threads(1).call(hangs, ()))
        await asyncio.to_thread(started.wait, _PATIENCE_S)
        given_up.cancel()

    asyncio.run(give_up())
    ending.set()
    assert over.wait(_PATIENCE_S)
