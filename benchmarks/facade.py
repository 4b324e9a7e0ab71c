"""CPU of one call through the facade, of a cache key, and of an output schema.

`python benchmarks/facade.py` prints the table that docs quote; `--quick` only shows that it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from itertools import count
from pathlib import Path

import orjson
from purgatory import AsyncCircuitBreakerFactory
from pydantic import BaseModel
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from beam_agents.errors import ProviderTimeout, RateLimitError, ServerError  # noqa: E402
from beam_agents.model import (  # noqa: E402
    CircuitBreaker,
    DecodedResponse,
    LlmFacade,
    LlmRequest,
    LlmResponse,
    ReplayCache,
    RetryPolicy,
    TokenUsage,
    compute_cache_key,
)
from beam_agents.model.schema import fold, parse_output  # noqa: E402
from beam_agents.proto import TraceEvent  # noqa: E402
from benchmarks.side_by_side import Comparison, compare, report  # noqa: E402

KEY = b"customer-1"
WIRE = orjson.dumps(
    {
        "id": "chatcmpl-1",
        "model": "m-1",
        "choices": [{"message": {"role": "assistant", "content": "x" * 780}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200},
    }
)


def request_of(size: int) -> LlmRequest:
    """A conversation of about `size` bytes."""
    turn = "The customer asks where the parcel is. " * 25
    turns = [{"role": ("user", "assistant")[n % 2], "content": turn} for n in range(max(1, size // (len(turn) + 35)))]
    return LlmRequest("m-1", turns, None, {"temperature": 0.2, "max_tokens": 512})


def decode(response: bytes) -> DecodedResponse:
    """As a chat-completions client would read it."""
    told = orjson.loads(response)
    usage, choice = told["usage"], told["choices"][0]
    return DecodedResponse(
        TokenUsage(usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]),
        choice["message"]["content"],
        choice["finish_reason"],
        response_model=told["model"],
        response_id=told["id"],
    )


class Instant:
    """A provider that costs nothing."""

    provider_name = "instant"
    endpoint = "https://llm.example"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse(WIRE)


class Dropped:
    """A staging sink that keeps nothing."""

    def stage_trace_event(self, event: TraceEvent) -> None:
        pass

    def accumulate_usage(self, usage: TokenUsage) -> None:
        pass


def clock() -> int:
    return int(time.time() * 1_000)


def new_facade(cache: ReplayCache) -> LlmFacade:
    return LlmFacade(
        Instant(),
        cache,
        now_ms=clock,
        rng=random.Random(1),
        sleep=asyncio.sleep,
        breaker=CircuitBreaker(endpoint="https://llm.example", threshold=10, cooldown_ms=10_000),
        retry_policy=RetryPolicy(5, 500, 60_000),
        decode=decode,
        staging=Dropped(),
    )


def tenacity_and_purgatory(request: LlmRequest) -> Callable[[], Awaitable[object]]:
    """The same call as people build it today: retries and a breaker, but no replay, account or trace."""
    provider, breakers = Instant(), AsyncCircuitBreakerFactory(default_threshold=10, default_ttl=10)

    @retry(
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(0.5, 60),
        retry=retry_if_exception_type((RateLimitError, ServerError, ProviderTimeout)),
        reraise=True,
    )
    async def guarded() -> DecodedResponse:
        async with await breakers.get_breaker("https://llm.example"):
            return decode((await provider.complete(request)).response)

    return guarded


async def calls(rounds: int, runs: int) -> list[Comparison]:
    """A miss and a hit, each against retries and breaker around the bare call."""
    request, position = request_of(4_096), count()
    missing, hitting = (new_facade(ReplayCache(now_ms=clock)) for _ in range(2))
    usual = tenacity_and_purgatory(request)
    await hitting.complete(request, entity_key=KEY, seq=0)

    def miss() -> Awaitable[object]:
        return missing.complete(request, entity_key=KEY, seq=next(position))

    def hit() -> Awaitable[object]:
        return hitting.complete(request, entity_key=KEY, seq=0)

    same = {"against": "tenacity + purgatory around the bare call", "rounds": rounds, "runs": runs}
    return [
        await compare("call, 4 KB request, 1 KB answer: miss", miss, usual, target=0.7, **same),
        await compare("call, 4 KB request, 1 KB answer: hit", hit, usual, target=0.4, **same),
    ]


async def keys(rounds: int, runs: int) -> list[Comparison]:
    """The cache key against the digest of whatever orjson writes."""
    found = []
    for size in (8_192, 524_288):
        request = request_of(size)

        async def ours(request: LlmRequest = request) -> object:
            return compute_cache_key(request.model_id, request.messages, None, request.sampling_params, KEY, 7)

        async def usual(request: LlmRequest = request) -> object:
            whole = [request.model_id, request.messages, None, request.sampling_params, KEY.hex(), 7]
            return sha256(orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)).hexdigest()

        found.append(
            await compare(
                f"cache key, {size // 1_024} KB",
                ours,
                usual,
                against="sha256 over orjson with sorted keys",
                target=1.6,
                rounds=rounds,
                runs=max(5, runs * 8_192 // size),
            )
        )
    return found


class Parcel(BaseModel):
    """Twelve fields, as a classification or an extraction has them."""

    order_id: str
    status: str
    carrier: str
    city: str
    country: str
    weight_kg: float
    price: float
    items: int
    urgent: bool
    tags: list[str]
    note: str | None = None
    score: float


ANSWER = json.dumps(
    {
        "order_id": "A-1029-77",
        "status": "in_transit",
        "carrier": "DHL Express",
        "city": "Zürich",
        "country": "CH",
        "weight_kg": 1.25,
        "price": 49.9,
        "items": 3,
        "urgent": False,
        "tags": ["fragile", "gift", "insured"],
        "note": "left with the neighbour on the second floor",
        "score": 0.87,
    },
    ensure_ascii=False,
)


async def schemas(rounds: int, runs: int) -> list[Comparison]:
    """Folding a schema into a request and parsing an answer strictly, against validation alone."""
    request, decoded = request_of(1_024), DecodedResponse(None, ANSWER)

    async def ours() -> object:
        fold(request, Parcel)
        return parse_output(decoded, Parcel)

    async def usual() -> object:
        return Parcel.model_validate_json(ANSWER)

    return [
        await compare(
            "output schema of 12 fields: fold and parse",
            ours,
            usual,
            against="model_validate_json, which lets duplicate keys and NaN pass",
            target=2.0,
            rounds=rounds,
            runs=runs,
        )
    ]


async def measured(rounds: int, runs: int) -> list[Comparison]:
    """Everything this file measures."""
    return [*await calls(rounds, runs), *await keys(rounds, runs), *await schemas(rounds, runs)]


def main(arguments: list[str] | None = None) -> int:
    """Measure and report; exits with 1 where a target is missed in a full run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: figures mean nothing, targets are not held")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args(arguments)
    rounds, runs = (2, 20) if options.quick else (15, 2_000)
    found = asyncio.run(measured(rounds, runs))
    report("facade: CPU for each run", found, options.json)
    return 0 if options.quick or all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
