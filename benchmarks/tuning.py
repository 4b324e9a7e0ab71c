"""What bundle size, `max_in_flight` and deadline do to throughput, latency and dead letters.

The transform's own DoFn over bundles of a chosen size, one after another, as a runner does with a stream that never
runs dry. Calls take 0.2 s, one in fifty 5 s; each event has a key of its own. An output counts when its bundle has
ended, and so was committed. Run `python -m benchmarks.tuning`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from apache_beam.coders import BytesCoder
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from beam_agents import AgentConfig
from beam_agents.beam.dofn import AgentDoFn
from beam_agents.values import LlmRequest, LlmResponse
from benchmarks.wire import WIRE
from benchmarks.work import config_for, decode

QUICK_S, SLOW_S, SLOW_ONE_IN = 0.2, 5.0, 50
SIZES = ((1, 60), (10, 300), (100, 1_000), (1_000, 2_000))
IN_FLIGHT = (10, 50, 250, 1_000)
DEADLINES_S = (300.0, 2.0, 0.5)


class Client:
    """Answers after 0.2 s; after 5 s what asks for it."""

    provider_name = "waiting"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        await asyncio.sleep(SLOW_S if request.messages[0]["content"] == "slow" else QUICK_S)
        return LlmResponse(WIRE)


async def agent(ctx: Any, number: int) -> str:
    """One call."""
    text = "slow" if Random(number).random() < 1 / SLOW_ONE_IN else "quick"
    return str((await ctx.complete(text, sample=number)).text)


class _Cell:
    """The state of a key that has none yet."""

    def read(self) -> None: ...

    def write(self, value: Any) -> None: ...


@dataclass(frozen=True)
class Measured:
    """What a stream came to."""

    events: int
    seconds: float
    waited: list[float]
    dead_letters: int

    def line(self, *labels: object) -> str:
        """A line of a table."""
        median, ninth = (self.waited[int(len(self.waited) * share)] for share in (0.5, 0.9))
        cells = (*labels, f"{self.events / self.seconds:.0f}", f"{median:.2f}", f"{ninth:.2f}", self.dead_letters)
        return "| " + " | ".join(map(str, cells)) + " |"


def measure(size: int, total: int, **settings: Any) -> Measured:
    """Run `total` events in bundles of `size`."""
    name = f"{size} {total} {settings}"
    config = AgentConfig(
        **({"provider": Client, "decode": decode, "max_in_flight": 1_000, "namespace": name} | settings)
    )
    dofn, window, waited, letters = AgentDoFn(agent, config, name, BytesCoder()), GlobalWindow(), [], 0
    began = time.perf_counter()
    for first in range(0, total, size):
        came = time.perf_counter()
        dofn.start_bundle()
        numbers = range(first, min(first + size, total))
        outputs = [
            one
            for n in numbers
            for one in dofn.process((b"%d" % n, n), _Cell(), window, Timestamp(0), PANE_INFO_UNKNOWN)
        ]
        outputs += dofn.finish_bundle()
        letters += sum(getattr(one, "tag", "") == "errors" for one in outputs)
        waited += [time.perf_counter() - came] * len(numbers)
    return Measured(total, time.perf_counter() - began, sorted(waited), letters)


def memory_mb(keys: int, events: int) -> float:
    """By how much the process grows over a bundle whose outputs leave and whose calls end at once. Linux alone."""
    dofn = AgentDoFn(quick_agent, config_for(), f"memory {keys}", BytesCoder())
    dofn.start_bundle()
    before = _resident_mb()
    for n in range(events):
        _let_go(dofn.process((b"%d" % (n % keys), n), _Cell(), GlobalWindow(), Timestamp(0), PANE_INFO_UNKNOWN))
    _let_go(dofn.finish_bundle())
    return _resident_mb() - before


async def quick_agent(ctx: Any, number: int) -> str:
    """One call."""
    return str((await ctx.complete(str(number))).text)


def _let_go(outputs: Iterable[Any]) -> None:
    deque(outputs, maxlen=0)


def _resident_mb() -> float:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def main() -> None:
    logging.disable(logging.WARNING)
    heads = "events a second | p50 s | p90 s | dead letters |"
    rule = "|---" * 5 + "|"
    measure(10, 10)
    print(f"| events in a bundle | {heads}\n{rule}")
    for size, total in SIZES:
        print(measure(size, total).line(f"{size:,}"), flush=True)
    print(f"\n| `max_in_flight`, bundles of 1,000 | {heads}\n{rule}")
    for most in IN_FLIGHT:
        print(measure(1_000, 1_000, max_in_flight=most).line(f"{most:,}"), flush=True)
    print(f"\n| `activation_timeout_s`, bundles of 100 | {heads}\n{rule}")
    for deadline_s in DEADLINES_S:
        print(measure(100, 1_000, activation_timeout_s=deadline_s).line(f"{deadline_s:g}"), flush=True)
    memory_mb(1, 1_000)
    for keys in (1, 20_000):
        print(f"\nmemory for a bundle of 20,000 events of {keys:,} keys: {memory_mb(keys, 20_000):.0f} MB", flush=True)


if __name__ == "__main__":
    main()
