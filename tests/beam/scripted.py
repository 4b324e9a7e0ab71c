"""Counting parts for pipelines. Importable, so that workers in this process share them with the test."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import partial
from typing import Any

import apache_beam as beam
import orjson

from beam_agents.activation.context import AgentContext
from beam_agents.beam.outputs import AgentOutputs
from beam_agents.model import DecodedResponse, LlmRequest, LlmResponse, ResponseDecodeError, ServerError, TokenUsage
from beam_agents.testing import FakeLLM, match_any, respond_with

ANSWER = orjson.dumps({"text": "hello", "usage": [3, 2]})

llm = FakeLLM()
kept: dict[str, list[Any]] = defaultdict(list)
marks: dict[str, int] = defaultdict(int)
_lock = threading.Lock()


class Gauge:
    """Counts calls at work at once."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0


gauge = Gauge()


class GaugedLLM:
    """The scripted model, watched."""

    provider_name = "fake"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        gauge.now += 1
        gauge.peak = max(gauge.peak, gauge.now)
        try:
            if marks["outage"] > 0:
                marks["outage"] -= 1
                raise ServerError(503)
            return await llm.complete(request)
        finally:
            gauge.now -= 1


def reset() -> None:
    llm._rules.clear()
    llm._seen.clear()
    llm.requests.clear()
    kept.clear()
    marks.clear()
    gauge.now = gauge.peak = 0


def answer_all(payload: bytes = ANSWER, latency_ms: float = 0) -> None:
    llm.add_rule(match_any(), respond_with(payload, latency_ms))


def outage(requests: int) -> None:
    """Fail the next `requests`, whatever they ask."""
    marks["outage"] = requests


def provider() -> GaugedLLM:
    return GaugedLLM()


def decode(payload: bytes) -> DecodedResponse:
    try:
        told = orjson.loads(payload)
        usage = told["usage"]
        details = told.get("cached"), told.get("reasoning")
        return DecodedResponse(None if usage is None else TokenUsage(*usage, sum(usage), *details), told["text"])
    except (KeyError, TypeError, ValueError) as error:
        raise ResponseDecodeError(str(error)) from None


def keep(name: str, value: Any) -> Any:
    with _lock:
        kept[name].append(value)
    return value


def once(name: str) -> bool:
    """True for the first call with this name, in any thread."""
    with _lock:
        marks[name] += 1
        return marks[name] == 1


def keep_all(outputs: AgentOutputs) -> None:
    for name in outputs._fields:
        getattr(outputs, name) | f"keep {name}" >> beam.Map(partial(keep, name))


async def greeter(ctx: AgentContext, event: Any) -> Any:
    """One call, and where it stood."""
    result = await ctx.complete(f"greet {ctx.entity_key.decode()} {event}")
    return ctx.entity_key.decode(), ctx.seq, event, result.text


class FailOnceAtEnd(beam.DoFn):
    """Fails the first bundle that it sees, at its very end, and lets every later one through."""

    def process(self, element: Any) -> Any:
        yield element

    def finish_bundle(self) -> None:
        if once("failed at the end"):
            raise RuntimeError("the bundle fails at its last step")
