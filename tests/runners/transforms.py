"""What the suite runs: the same numbers through `RunAgent`, `Complete`, or `RunInference` with our model handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import PredictionResult, RunInference

from beam_agents import AgentConfig, AgentContext, Complete, DeadLetter, FacadeModelHandler, RunAgent
from beam_agents.model import RetryPolicy
from beam_agents.providers import OpenAIClient
from tests.runners.shape import Shape

__all__ = ["TRANSFORMS", "Endpoint", "config"]


class Endpoint:
    """Makes clients of the suite's endpoint that name their calls to it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self) -> OpenAIClient:
        return OpenAIClient(base_url=self._url, api_key="none", model_id="suite-1", idempotency_key=True)


def config(url: str, journal: str, shape: Shape) -> AgentConfig:
    """The same for every run of one round, so that a second run goes on where the first ended."""
    return AgentConfig(
        provider=Endpoint(url),
        decode=OpenAIClient.decode,
        journal=journal,
        namespace="runners",
        max_in_flight=shape.max_in_flight,
        activation_timeout_s=60,
        retry_policy=RetryPolicy(6, 20, 200),
        breaker_threshold=1_000,
        on_error="raise" if shape.fails_once else "dead_letter",
        commit="timer" if shape.timed else "bundle",
    )


class Answer:
    """The agent: some calls one after another; counts in its key's state; refuses some events."""

    def __init__(self, shape: Shape, folder: str) -> None:
        self._shape = shape
        self._folder = folder

    async def __call__(self, ctx: AgentContext, n: int) -> Any:
        hits = [(await ctx.complete(_prompt(n, call))).cache_hit for call in range(self._shape.calls)]
        _fail_if_wanted(self._shape, self._folder, n)
        count = ctx.state = (ctx.state or 0) + 1
        return {"key": ctx.entity_key.decode(), "seq": ctx.seq, "n": n, "count": count, "replayed": sum(hits)}


def _agent(events: Any, shape: Shape, settings: AgentConfig, folder: str, official_api: bool) -> Mapping[str, Any]:
    pairs = events | "Key" >> beam.Map(partial(_keyed, shape.keys)).with_output_types(tuple[str, int])
    results = pairs | "Agent" >> RunAgent(Answer(shape, folder), settings, official_api=official_api)
    return dict(results._asdict())


def _complete(events: Any, shape: Shape, settings: AgentConfig, folder: str, official_api: bool) -> Mapping[str, Any]:
    results = events | "Ask" >> Complete(_prompt, settings, to_output=partial(_answered, shape, folder))
    return dict(results._asdict())


def _inference(events: Any, shape: Shape, settings: AgentConfig, folder: str, official_api: bool) -> Mapping[str, Any]:
    handler = FacadeModelHandler(settings, to_request=partial(_prompt_or_failure, shape, folder))
    return {"main": events | "Infer" >> RunInference(handler) | "Result" >> beam.Map(_result)}


Transform = Callable[[Any, Shape, AgentConfig, str, bool], Mapping[str, Any]]

TRANSFORMS: Mapping[str, Transform] = {"RunAgent": _agent, "Complete": _complete, "model handler": _inference}
"""By the name that a shape has for it: numbers, at their times and in their windows → outputs by name."""


def _keyed(keys: int, n: int) -> tuple[str, int]:
    return f"key-{n % keys}", n


def _prompt(n: int, call: int = 0) -> str:
    return f"event {n} call {call}"


def _prompt_or_failure(shape: Shape, folder: str, n: int) -> str:
    _fail_if_wanted(shape, folder, n)
    return _prompt(n)


def _answered(shape: Shape, folder: str, n: int, result: Any) -> Any:
    _fail_if_wanted(shape, folder, n)
    return _line(n, result)


def _line(n: int, result: Any) -> Any:
    """Every element is a key of its own."""
    return {"key": n, "seq": 0, "n": n, "count": 1, "replayed": int(result.cache_hit)}


def _result(found: PredictionResult) -> Any:
    return found.inference if isinstance(found.inference, DeadLetter) else _line(found.example, found.inference)


def _fail_if_wanted(shape: Shape, folder: str, n: int) -> None:
    if shape.is_refused(n):
        raise ValueError("refused on purpose")
    if shape.fails_once and n == shape.total - 1 and _is_first(Path(folder).parent / "failed"):
        raise RuntimeError("the last event fails once")


def _is_first(marker: Path) -> bool:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
