"""A finished run again: every answer from the journal, no call, beside an empty stateful pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import apache_beam as beam
import orjson

from beam_agents import AgentConfig
from beam_agents.activation.loop import close_activation_loop
from beam_agents.values import LlmRequest, LlmResponse
from benchmarks.rows import Found, in_turn, ratio, value
from benchmarks.timing import noting_cpu
from benchmarks.work import EmptyStateful, WaitingClient, agent_pipeline, decode, run_counted, text_of

__all__ = ["measured"]

LAYERS = {
    "again": "an activation that asks once, run again from the journal",
    "silent": "an activation that asks nothing",
    "empty": "an element of the empty stateful pipeline",
}

_calls = [0]


class CountingClient(WaitingClient):
    """Counts its calls over the whole process."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        _calls[0] += 1
        return await super().complete(request)


async def ask_about(ctx: Any, event: bytes) -> int:
    """Decode the event, ask about it."""
    return len((await ctx.complete(orjson.loads(event)["text"])).text)


async def ask_nothing(ctx: Any, event: bytes) -> int:
    """Decode the event."""
    return len(orjson.loads(event)["text"])


def measured(quick: bool) -> Found:
    """Rates of both, and that the run again made no call."""
    activations, rounds = (20, 1) if quick else (20_000, 3)
    events = [(f"key-{n}", orjson.dumps({"number": n, "text": text_of(n, 400)})) for n in range(activations)]
    _calls[0] = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        journal = f"sqlite:///{Path(directory) / 'journal.db'}"
        first = activations / _run(events, journal)
        if _calls[0] != activations:
            raise RuntimeError(f"{_calls[0]} calls of {activations}")
        ways: dict[str, Callable[[], float]] = {
            "again": lambda: activations / _run(events, journal),
            "empty": lambda: activations / run_counted(_empty, events),
            "silent": lambda: activations / _run(events, None, ask_nothing),
        }
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        found = in_turn(rounds, {name: noting_cpu(cpu[name], way) for name, way in ways.items()})
        close_activation_loop()
    calls = _calls[0] - activations
    name = f"{activations:,} finished activations run again from the journal"
    peer = "an empty stateful pipeline with one JSON decode each"
    again = found["again"]
    return Found(
        (
            ratio(name, "activations/s", again, found["empty"], peer, 0.6, at_least=True, note=f"{calls} calls made"),
            value(name, "activations/s", median(again), 3_000, at_least=True, note="the same, by itself"),
            value(f"{activations:,} activations run for the first time, journaled", "activations/s", first),
            value("calls that the runs again made", "calls", calls, 0),
            *(value(f"CPU of one: {LAYERS[each]}", "µs", median(cpu[each]) / activations * 1e6) for each in ways),
        )
    )


def _run(events: Sequence[tuple[str, bytes]], journal: str | None, agent: Any = ask_about) -> float:
    config = AgentConfig(provider=CountingClient, decode=decode, journal=journal, namespace="bench")
    return agent_pipeline(events, config, agent)


def _empty(elements: Any) -> Any:
    return elements | beam.ParDo(EmptyStateful(orjson.loads))
