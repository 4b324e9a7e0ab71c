"""A pipeline over a bounded list of keyed events, for the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import apache_beam as beam
from apache_beam.internal.cloudpickle_pickler import cloudpickle  # Beam's own one, or the package of that name
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.typehints import with_output_types

from beam_agents.activation.agent import Agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.loop import activation_loop
from beam_agents.beam.runners import local_arguments, local_options
from beam_agents.beam.transform import RunAgent

__all__ = ["Receiver", "ResultFiles", "run_here", "run_on_runner", "runs_in_process", "smoke_test", "unknown_arguments"]


@dataclass(frozen=True, slots=True)
class Receiver:
    """Takes the results of a run in this process, from Beam's threads, as they are committed."""

    output: Callable[[Any], None]
    trace: Callable[[Any], None]
    error: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Files that a runner writes, and what makes a line of each result."""

    output: Path
    traces: Path
    errors: Path
    output_line: Callable[[Any], bytes]
    trace_line: Callable[[Any], bytes]
    error_line: Callable[[Any], bytes]


_receivers: dict[str, Receiver] = {}
_held: dict[str, Sequence[tuple[str, Any]]] = {}


def run_here(
    pairs: Sequence[tuple[str, Any]],
    agent: Agent,
    config: AgentConfig,
    receiver: Receiver,
    arguments: Sequence[str] = (),
) -> None:
    """Run `agent` over `pairs` in this process; returns when everything is committed.

    The pairs stay in memory: `beam.Create` would pickle and compress them all, which takes longer than their calls.
    """
    name = uuid4().hex
    _receivers[name], _held[name] = receiver, pairs
    try:
        with beam.Pipeline(options=local_options(arguments)) as pipeline:
            events = pipeline | beam.Impulse() | "Events" >> beam.ParDo(_Held(name))
            results = events | "Agent" >> RunAgent(agent, config)
            for kind, collection in (("output", results.main), ("trace", results.traces), ("error", results.errors)):
                _ = collection | f"Take {kind}s" >> beam.ParDo(_Hand(name, kind))
    finally:
        del _receivers[name], _held[name]


def run_on_runner(
    pairs: Sequence[tuple[str, Any]],
    agent: Agent,
    config: AgentConfig,
    files: ResultFiles,
    arguments: Sequence[str],
    by_value: Sequence[ModuleType] = (),
) -> None:
    """Run `agent` over `pairs` on the runner that `arguments` name; the runner writes the files.

    `by_value` are modules that workers cannot import: what they define travels with the pipeline.
    """
    arguments = local_arguments(arguments)
    for module in by_value:
        cloudpickle.register_pickle_by_value(module)
    with beam.Pipeline(options=PipelineOptions(list(arguments))) as pipeline:
        results = pipeline | "Events" >> beam.Create(pairs) | "Agent" >> RunAgent(agent, config)
        for kind, collection, to_line, path in (
            ("output", results.main, files.output_line, files.output),
            ("trace", results.traces, files.trace_line, files.traces),
            ("error", results.errors, files.error_line, files.errors),
        ):
            lines = collection | f"{kind} to line" >> beam.Map(_text_of, to_line).with_output_types(str)
            _ = lines | f"Write {kind}s" >> beam.io.WriteToText(str(path), shard_name_template="", num_shards=1)


def runs_in_process(arguments: Sequence[str]) -> bool:
    """Whether these pipeline options leave the run in this process."""
    given = " ".join(local_arguments(arguments))
    return "FnApiRunner" in given and "multi_processing" not in given


def unknown_arguments(arguments: Sequence[str]) -> list[str]:
    """Those of `arguments` that no Beam option takes; Beam itself would only log them."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for options in [PipelineOptions, *PipelineOptions.__subclasses__()]:
        options._add_argparse_args(_Lenient(parser)) if hasattr(options, "_add_argparse_args") else None
    return parser.parse_known_args(list(arguments))[1]


class _Lenient:
    """Adds each argument once, although several option classes may declare it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def add_argument(self, *names: str, **settings: Any) -> None:
        try:
            self._parser.add_argument(*names, **settings)
        except argparse.ArgumentError:
            return

    add_value_provider_argument = add_argument


@with_output_types(tuple[Any, Any])  # keys are texts, or the bytes of dead letters
class _Held(beam.DoFn):  # type: ignore[misc]
    """Gives the pairs that this process holds."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, _: bytes) -> Sequence[tuple[str, Any]]:
        return _held[self._name]


class _Hand(beam.DoFn):  # type: ignore[misc]
    """Hands every element to this process's receiver."""

    def __init__(self, name: str, kind: str) -> None:
        self._name = name
        self._kind = kind

    def process(self, element: Any) -> None:
        getattr(_receivers[self._name], self._kind)(element)


def _text_of(element: Any, to_line: Callable[[Any], bytes]) -> str:
    return to_line(element).decode().rstrip("\n")


def smoke_test() -> float:
    """Run a trivial agent over one event in this process; returns how long it took, in milliseconds."""
    took: list[float] = []
    receiver = Receiver(output=took.append, trace=lambda _: None, error=lambda _: None)
    config = AgentConfig(provider=_no_client, decode=_no_decode, namespace="smoke test")
    started = activation_loop().now_ms()
    run_here([("key", 1)], _echo, config, receiver)
    if took != [1]:
        raise RuntimeError("the pipeline ran, but its output did not arrive")
    return activation_loop().now_ms() - started


async def _echo(_: Any, event: Any) -> Any:
    return event


def _no_client() -> Any:
    raise NotImplementedError


def _no_decode(answer: bytes) -> Any:
    raise NotImplementedError
