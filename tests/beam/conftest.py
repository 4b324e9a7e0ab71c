"""Runners, a fresh process state for each test, and pipelines over pairs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import beam_agents
from beam_agents.activation import AgentConfig, close_activation_loop
from beam_agents.beam import RunAgent, disable_state_cache
from beam_agents.journals.memory import reset_memory_journals
from beam_agents.model import reset_circuit_breakers
from tests.beam import scripted

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(beam_agents.__file__).parents[1])}
"""For child processes: they find this beam_agents."""

RUNNERS = ("FnApiRunner", "BundleBasedDirectRunner")


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    scripted.reset()
    reset_circuit_breakers()
    reset_memory_journals()
    disable_state_cache()
    yield
    close_activation_loop()


def config(**fields: Any) -> AgentConfig:
    return AgentConfig(**({"provider": scripted.provider, "decode": scripted.decode} | fields))


def options(runner: str) -> PipelineOptions:
    return PipelineOptions([f"--runner={runner}"])


WAYS = (*((runner, False) for runner in RUNNERS), ("FnApiRunner", True))
"""Runner, and whether by Beam's documented interface alone."""


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=WAYS, ids=lambda way: way[0] + ("-official" if way[1] else ""))
def way(request: pytest.FixtureRequest) -> tuple[str, bool]:
    runner, official_api = request.param
    return runner, official_api


@pytest.fixture
def run(way: tuple[str, bool]) -> Callable[..., Any]:
    """Runs an agent over pairs and keeps its three outputs in `scripted.kept`; the pipeline's result."""

    def _run(pairs: list[Any], agent: Any, settings: AgentConfig | None = None) -> Any:
        runner, official_api = way
        pipeline = beam.Pipeline(options=options(runner))
        transform = RunAgent(agent, settings or config(), official_api=official_api)
        scripted.keep_all(pipeline | beam.Create(pairs) | transform)
        result = pipeline.run()
        result.wait_until_finish()
        return result

    return _run
