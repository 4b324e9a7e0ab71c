"""What becomes of requests and steps under way when their process ends in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from beam_agents.activation import AgentConfig
from beam_agents.activation.loop import ActivationLoop
from beam_agents.activation.resources import Resources
from beam_agents.activation.run import Activation, run_activation
from beam_agents.activation.staging import Position
from beam_agents.activation.under_way import UnderWay
from beam_agents.journals import open_reader
from beam_agents.values import LlmRequest, LlmResponse
from tests.activation.conftest import SCOPE, body, decode

JOURNAL = "memory://under-way"


@pytest.fixture
def loop() -> Iterator[ActivationLoop]:
    running = ActivationLoop()
    yield running
    running.close()


class Slow:
    """Answers after `until`."""

    def __init__(self, until: Callable[[], Awaitable[object]]) -> None:
        self.requests = 0
        self.asked = threading.Event()
        self._until = until

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.requests += 1
        self.asked.set()
        await self.wait()
        return LlmResponse(body("paid"))

    async def wait(self) -> str:
        self.asked.set()
        await self._until()
        return "done"


def started(agent: Any, loop: ActivationLoop, client: Slow, **fields: Any) -> None:
    config = AgentConfig(provider=lambda: client, decode=decode, journal=JOURNAL, **fields)
    activation = Activation(agent, "event", Position(SCOPE, b"k", 0))
    asyncio.run_coroutine_threadsafe(run_activation(activation, Resources(config, loop)), loop.loop)
    assert client.asked.wait(30)


async def outcomes() -> list[tuple[str, str]]:
    return [(record.call.kind, record.outcome) async for record in open_reader(JOURNAL).records()]


async def two_calls(ctx: Any, event: Any) -> None:
    await ctx.complete("one")
    await ctx.complete("two")


async def test_an_answer_that_comes_within_the_grace_is_journaled_and_no_new_request_is_sent(loop: Any) -> None:
    client = Slow(loop.under_way.closing.wait)
    started(two_calls, loop, client, closing_grace_s=30)
    loop.close()
    assert await outcomes() == [("call", "answered")]
    assert client.requests == 1


async def test_a_step_that_ends_within_the_grace_is_journaled(loop: Any) -> None:
    client = Slow(loop.under_way.closing.wait)

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.step("wait", client.wait)
        await ctx.step("again", client.wait)

    started(agent, loop, client, closing_grace_s=30)
    loop.close()
    assert await outcomes() == [("step", "answered")]


@pytest.mark.parametrize("grace_s", [0, 0.01])
async def test_a_request_that_outlasts_the_grace_is_cut_and_in_doubt(loop: Any, grace_s: float) -> None:
    started(two_calls, loop, Slow(asyncio.Event().wait), closing_grace_s=grace_s)
    loop.close()
    assert loop.closed
    assert await outcomes() == [("call", "in_doubt")]


async def test_with_nothing_under_way_the_end_waits_for_nothing() -> None:
    under_way = UnderWay()
    async with under_way, under_way:
        assert not under_way.closing.is_set()
    await under_way.finish()
    waiting = asyncio.ensure_future(under_way.__aenter__())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
