"""An outage as 1,000 workers live through it: what reaches the endpoint with and without load control.

The real facade, breaker, gate and budget run on a clock that jumps from event to event; only the endpoint and the
passing of time are simulated. Run `python benchmarks/outage.py --plot docs/img/outage.svg`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import selectors
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from beam_agents.activation import Activation, AgentConfig, Position, Scope, activation_loop, run_activation
from beam_agents.activation.resources import Resources
from beam_agents.errors import RateLimitError, ServerError
from beam_agents.model import DecodedResponse, LlmRequest, LlmResponse, TokenUsage

OUTAGE_S = (20.0, 40.0)
ARRIVALS_S = 60
EVENT_EVERY_S = 2.0
CAPACITY_FOR_A_WORKER = 1.5

_NO_BREAKER = {"breaker_threshold": 10**9, "on_open": "dead_letter"}
SCENARIOS: dict[str, dict[str, Any]] = {
    "retries alone": _NO_BREAKER,
    "retry budget": _NO_BREAKER | {"retry_budget": 0.2},
    "circuit breaker": {"on_open": "dead_letter"},
    "circuit breaker, waiting (the default)": {"on_open": "wait"},
    "the same, a circuit that opens after 7 failures": {"breaker_threshold": 7},
}


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on which waiting takes no time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_Jump(self))

    def time(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)


class _Jump(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        self._loop.now_s += max(timeout or 0.0, 0.0)
        return []


@dataclass
class Endpoint:
    """Serves so many requests a second, none during the outage; counts what arrives."""

    loop: VirtualTimeLoop
    capacity: float
    random: Random = field(default_factory=lambda: Random(1))
    arrived: Counter[int] = field(default_factory=Counter)
    served: Counter[int] = field(default_factory=Counter)

    async def answer(self) -> bytes:
        second = int(self.loop.time())
        self.arrived[second] += 1
        if OUTAGE_S[0] <= self.loop.time() < OUTAGE_S[1]:
            await asyncio.sleep(0.05)
            raise ServerError(503)
        if self.served[second] >= self.capacity:
            raise RateLimitError()
        self.served[second] += 1
        await asyncio.sleep(self.random.uniform(0.2, 0.4))
        return b"ok"


class Client:
    """One worker's client: its own circuit breaker, the common endpoint."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        self._endpoint = endpoint
        self.endpoint_id = name

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse(await self._endpoint.answer())


@dataclass
class Result:
    """What a scenario came to."""

    name: str
    arrived: list[int]
    dead_letters: int
    answered: int
    finished_s: float

    @property
    def in_outage(self) -> int:
        return sum(self.arrived[int(OUTAGE_S[0]) : int(OUTAGE_S[1])])

    @property
    def busiest(self) -> int:
        return max(self.arrived)


def decode(payload: bytes) -> DecodedResponse:
    return DecodedResponse(TokenUsage(1, 1, 2), payload.decode())


async def agent(ctx: Any, event: Any) -> Any:
    return (await ctx.complete(str(event))).text


async def worker(number: int, endpoint: Endpoint, loop: VirtualTimeLoop, scenario: str, tally: Counter[str]) -> None:
    """Takes an event every so often, and runs at most 16 at once."""
    config = AgentConfig(
        provider=lambda: Client(endpoint, f"{scenario}#{number}"),
        decode=decode,
        max_in_flight=16,
        **SCENARIOS[scenario],
    )
    resources = Resources(
        config,
        activation_loop(),
        now_ms=loop.now_ms,
        sleep=lambda ms: asyncio.sleep(ms / 1000),
        rng=Random(number),
    )

    async def one(seq: int) -> None:
        async with resources.slots:
            outcome = await run_activation(Activation(agent, seq, Position(Scope(), b"%d" % number, seq)), resources)
        tally["answered" if outcome.committed else "dead letters"] += 1

    await asyncio.sleep(Random(number).uniform(0, EVENT_EVERY_S))
    running = []
    for seq in range(int(ARRIVALS_S / EVENT_EVERY_S)):
        running.append(asyncio.ensure_future(one(seq)))
        await asyncio.sleep(EVENT_EVERY_S)
    await asyncio.gather(*running)


def simulate(name: str, workers: int) -> Result:
    """Run one scenario from its first event to its last answer."""
    loop = VirtualTimeLoop()
    endpoint, tally = Endpoint(loop, CAPACITY_FOR_A_WORKER * workers), Counter[str]()

    async def everything() -> None:
        await asyncio.gather(*(worker(n, endpoint, loop, name, tally) for n in range(workers)))

    loop.run_until_complete(everything())
    finished_s = loop.time()
    loop.close()
    arrived = [endpoint.arrived[second] for second in range(int(finished_s) + 1)]
    return Result(name, arrived, tally["dead letters"], tally["answered"], finished_s)


def table(results: list[Result], workers: int) -> str:
    """The results as Markdown."""
    lines = [
        "| | requests in the outage | for each event due then | busiest second | dead letters | last answer |",
        "|---|---|---|---|---|---|",
    ]
    due = workers * (OUTAGE_S[1] - OUTAGE_S[0]) / EVENT_EVERY_S
    lines += [
        f"| {one.name} | {one.in_outage:,} | {one.in_outage / due:.2f} | {one.busiest:,} | {one.dead_letters:,} "
        f"| {one.finished_s:.0f} s |"
        for one in results
    ]
    return "\n".join(lines)


def plot(results: list[Result]) -> str:
    """Requests a second over time, as an SVG."""
    width, height, left, top = 900, 380, 70, 20
    last = max(len(one.arrived) for one in results)
    most = max(one.busiest for one in results)
    colours = ("#c0392b", "#e67e22", "#2980b9", "#27ae60", "#8e44ad")

    def at(second: float, count: float) -> str:
        return f"{left + second / last * width:.1f},{top + height - count / most * height:.1f}"

    x0, x1 = (left + second / last * width for second in OUTAGE_S)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + left + 20} {height + 154}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect x="{x0:.1f}" y="{top}" width="{x1 - x0:.1f}" height="{height}" fill="#f2f2f2"/>',
        f'<text x="{x0 + 8:.1f}" y="{top + 16}" fill="#777">outage</text>',
    ]
    for mark in range(0, most + 1, max(1, most // 5)):
        y = top + height - mark / most * height
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:,}</text>')
    for second in range(0, last, 10):
        parts.append(f'<text x="{left + second / last * width:.1f}" y="{top + height + 18}">{second} s</text>')
    for place, (one, colour) in enumerate(zip(results, colours, strict=True)):
        points = " ".join(at(second, count) for second, count in enumerate(one.arrived))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = left + place % 2 * 420, top + height + 48 + place // 2 * 24
        parts.append(f'<line x1="{x}" x2="{x + 28}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 36}" y="{y}">{one.name}</text>')
    parts.append(
        f'<text x="{left}" y="{top + height + 124}" fill="#777">requests a second at the endpoint</text></svg>'
    )
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--plot", type=Path, help="where to write the SVG")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    arguments = parser.parse_args()
    logging.getLogger("beam_agents").setLevel(logging.ERROR)
    results = [simulate(name, arguments.workers) for name in SCENARIOS]
    print(table(results, arguments.workers))
    if arguments.plot:
        arguments.plot.write_text(plot(results))
    if arguments.json:
        arguments.json.write_text(json.dumps([vars(one) for one in results], indent=1))


if __name__ == "__main__":
    main()
