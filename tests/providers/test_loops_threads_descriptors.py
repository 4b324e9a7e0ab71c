"""One client on several loops and threads; descriptors stay flat."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from beam_agents.values import LlmRequest
from tests.providers.wires import WIRES, Wire
from tests.servers import raw_tcp
from tests.servers.raw_tcp import RawServer, Received, Reply, answer

REQUEST = LlmRequest("test-model", [{"role": "user", "content": "hi"}])
STALLING = LlmRequest("test-model", [{"role": "user", "content": "stall"}])


@pytest.fixture
def echo(wire: Wire) -> Iterator[RawServer]:
    def script(request: Received) -> Reply:
        return raw_tcp.STALL_BEFORE if wire.prompt_of(request.json) == "stall" else answer(wire.answer("ok"))

    with RawServer(script) as server:
        yield server


def test_loops_one_after_the_other_leave_nothing_open(wire: Wire, echo: RawServer):
    client = wire.client(echo.url)

    async def calls() -> None:
        await asyncio.gather(*(client.complete(REQUEST) for _ in range(5)))
        assert len(_sockets_to(echo.port)) == 5

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            asyncio.run(calls())
            assert _sockets_to(echo.port) == []
    assert len(echo.received) == 20


def test_loops_closed_without_shutdown_leave_nothing_open_once_the_next_has_begun(wire: Wire, echo: RawServer):
    client = wire.client(echo.url)
    with warnings.catch_warnings():
        # Python itself reports the open transports of such a loop.
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(5):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(client.complete(REQUEST))
            loop.close()
            del loop
        asyncio.run(client.complete(REQUEST))
        gc.collect()
    assert _sockets_to(echo.port) == []
    assert len(echo.received) == 6


def test_four_threads_with_loops_of_their_own_share_one_client(wire: Wire, echo: RawServer):
    client = wire.client(echo.url)
    together = threading.Barrier(4)

    async def calls() -> list[str]:
        together.wait(10)
        answers = await asyncio.gather(*(client.complete(REQUEST) for _ in range(25)))
        return [client.decode(answer.response).text for answer in answers]

    with ThreadPoolExecutor(4) as pool:
        texts = [text for found in pool.map(lambda _: asyncio.run(calls()), range(4)) for text in found]
    assert texts == ["ok"] * 100
    assert len(echo.received) == 100


@pytest.mark.parametrize(("calls", "cancellations"), [(2_000, 200)])
async def test_calls_and_cancellations_leave_the_count_of_connections_flat(calls: int, cancellations: int):
    wire, width = WIRES["openai"], 20

    def script(request: Received) -> Reply:
        return raw_tcp.STALL_BEFORE if wire.prompt_of(request.json) == "stall" else answer(wire.answer("ok"))

    with RawServer(script) as server:
        client = wire.client(server.url, max_connections=width)
        for _ in range(calls // width):
            await asyncio.gather(*(client.complete(REQUEST) for _ in range(width)))
            assert len(_sockets_to(server.port)) <= width
        for done in range(0, cancellations, width):
            tasks = [asyncio.create_task(client.complete(STALLING)) for _ in range(width)]
            await server.arrived(calls + done + width)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        await asyncio.gather(*(client.complete(REQUEST) for _ in range(width)))
        assert len(_sockets_to(server.port)) <= width
        assert len(server.received) == calls + cancellations + width
        await client.aclose()
        assert _sockets_to(server.port) == []


def _sockets_to(port: int) -> list[str]:
    """Established client sockets of this host whose peer is `port`."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return [row[1] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"]


async def test_a_dropped_client_closes_its_connections():
    wire = WIRES["openai"]
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(server.url)
        await client.complete(REQUEST)
        assert len(_sockets_to(server.port)) == 1
        del client
        gc.collect()
        for _ in range(10):
            await asyncio.sleep(0)
        assert _sockets_to(server.port) == []


async def test_closing_twice_and_calling_again(wire: Wire, echo: RawServer):
    client = wire.client(echo.url)
    await client.complete(REQUEST)
    await client.aclose()
    await client.aclose()
    await client.complete(REQUEST)
    await client.aclose()
    assert len(echo.received) == 2
