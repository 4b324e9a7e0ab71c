"""Calls a second over loopback HTTP from an endpoint that answers at once: 4 KB prompts, 64 in flight."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import openai
import orjson

from beam_agents import AgentConfig
from beam_agents.activation.loop import close_activation_loop
from beam_agents.journals import open_journal
from beam_agents.model import CircuitBreaker, LlmFacade, LlmRequest, ReplayCache, RetryPolicy
from beam_agents.ports import Journal
from beam_agents.providers import OpenAIClient
from beam_agents.testing import RecordingSink
from benchmarks.endpoint import serving
from benchmarks.rows import Found, in_turn, ratio, value
from benchmarks.timing import noting_cpu, run_loop, seconds
from benchmarks.work import agent_pipeline, text_of

__all__ = ["measured"]

IN_FLIGHT = 64
PROMPT_CHARACTERS = 4_096
KEY_NAME = "BENCHMARK_API_KEY"

LAYERS = {
    "bare": "a bare aiohttp loop",
    "client": "OpenAIClient alone",
    "facade": "client and facade",
    "ours": "client, facade and SQLite journal",
    "pipeline": "all that in a whole Beam pipeline",
}

Call = Callable[[int], Awaitable[Any]]


def measured(quick: bool) -> Found:
    """Facade, client and journal, and the whole pipeline, beside a bare aiohttp loop and the vendor's SDK."""
    many, few, rounds = (20, 5, 1) if quick else (5_000, 500, 5)
    os.environ[KEY_NAME] = "no secret"
    with serving() as url:
        layers: dict[str, Callable[[], float]] = {
            "bare": lambda: _rate(url, many, _bare),
            "client": lambda: _rate(url, many, _client),
            "facade": lambda: _rate(url, many, _facade),
            "ours": lambda: _rate(url, many, _ours),
            "pipeline": lambda: _pipeline_rate(url, many),
        }
        layers["ours"]()
        cpu: dict[str, list[float]] = {name: [] for name in layers}
        ways = {name: noting_cpu(cpu[name], way) for name, way in layers.items()}
        found = in_turn(rounds, {**ways, "sdk": lambda: _rate(url, few, _sdk)})
    bare, loop = found["bare"], "a bare aiohttp loop"
    name = f"{many:,} calls of 4 KB over loopback HTTP, {IN_FLIGHT} in flight: "
    ours = name + "facade, OpenAIClient, SQLite journal"
    return Found(
        (
            ratio(ours, "calls/s", found["ours"], bare, loop, 0.5, at_least=True),
            ratio(name + "whole Beam pipeline", "calls/s", found["pipeline"], bare, loop, 0.35, at_least=True),
            ratio(ours, "calls/s", found["ours"], found["sdk"], "the vendor's SDK called bare", 2.0, at_least=True),
            *(value(f"CPU of such a call: {LAYERS[each]}", "µs", median(cpu[each]) / many * 1e6) for each in layers),
        )
    )


def _rate(url: str, calls: int, way: Callable[[str, int], Any]) -> float:
    return calls / _counted(url, calls, lambda: run_loop(way(url, calls)))


def _pipeline_rate(url: str, calls: int) -> float:
    took: list[float] = []
    _counted(url, calls, lambda: took.append(_pipeline(url, calls)))
    return calls / took[0]


def _counted(url: str, calls: int, work: Callable[[], Any]) -> float:
    """Seconds of `work`, which must have made exactly so many requests."""
    before = _served(url)
    took = seconds(work)
    if _served(url) - before != calls:
        raise RuntimeError(f"the endpoint served {_served(url) - before} requests of {calls}")
    return took


def _served(url: str) -> int:
    with urllib.request.urlopen(url) as answer:
        return int(answer.read())


async def _in_flight(calls: int, call: Call) -> None:
    left = iter(range(calls))

    async def work(numbers: Iterator[int]) -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(work(left) for _ in range(IN_FLIGHT)))


def _request(number: int) -> LlmRequest:
    return LlmRequest("m-1", [{"role": "user", "content": text_of(number, PROMPT_CHARACTERS)}])


async def _bare(url: str, calls: int) -> None:
    headers = {"Authorization": "Bearer no secret", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def call(number: int) -> None:
            request = _request(number)
            body = orjson.dumps({"model": request.model_id, "messages": request.messages})
            async with session.post(url + "/chat/completions", data=body) as response:
                orjson.loads(await response.read())["choices"][0]["message"]["content"]

        await _in_flight(calls, call)


async def _client(url: str, calls: int) -> None:
    client = OpenAIClient(base_url=url, api_key_env=KEY_NAME)

    async def call(number: int) -> None:
        OpenAIClient.decode((await client.complete(_request(number))).response)

    await _in_flight(calls, call)
    await client.aclose()


async def _facade(url: str, calls: int, journal: Journal | None = None) -> None:
    client = OpenAIClient(base_url=url, api_key_env=KEY_NAME)
    breaker = CircuitBreaker(endpoint=url, threshold=10, cooldown_ms=10_000)
    policy, rng = RetryPolicy(4, 500, 30_000), random.Random(1)

    async def call(number: int) -> None:
        facade = LlmFacade(
            client,
            ReplayCache(now_ms=_now_ms),
            now_ms=_now_ms,
            rng=rng,
            sleep=_sleep,
            breaker=breaker,
            retry_policy=policy,
            decode=client.decode,
            staging=RecordingSink(),
            journal=journal,
            scope="bench",
        )
        await facade.complete(_request(number), entity_key=b"%d" % number, seq=0)

    await _in_flight(calls, call)
    await client.aclose()


async def _ours(url: str, calls: int) -> None:
    with _new_journal() as uri:
        journal = open_journal(uri)
        await _facade(url, calls, journal)
        await journal.aclose()


async def _sdk(url: str, calls: int) -> None:
    async with openai.AsyncOpenAI(base_url=url, api_key="no secret", max_retries=0) as client:

        async def call(number: int) -> None:
            messages: Any = _request(number).messages
            await client.chat.completions.create(model="m-1", messages=messages)

        await _in_flight(calls, call)


def _pipeline(url: str, calls: int) -> float:
    pairs = [(str(number), text_of(number, PROMPT_CHARACTERS)) for number in range(calls)]
    with _new_journal() as uri:
        config = AgentConfig(
            "openai:m-1", base_url=url, api_key_env=KEY_NAME, journal=uri, max_in_flight=IN_FLIGHT, namespace="bench"
        )
        took = agent_pipeline(pairs, config)
        close_activation_loop()
        return took


@contextmanager
def _new_journal() -> Iterator[str]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        yield f"sqlite:///{Path(directory) / 'journal.db'}"


def _now_ms() -> int:
    return int(time.time() * 1000)


async def _sleep(ms: float) -> None:
    await asyncio.sleep(ms / 1000)
