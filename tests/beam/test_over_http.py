"""Pipelines over a real client, a real endpoint and a journal on disk; the endpoint keeps its own count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_agents import AgentConfig, Complete, RunAgent
from beam_agents.model import RetryPolicy
from tests.beam import scripted
from tests.beam.conftest import options
from tests.beam.endpoint import CountingEndpoint

KEYS = 60


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SOME_KEY", "key-of-the-test")

    def _settings(endpoint: CountingEndpoint, **fields: Any) -> AgentConfig:
        return AgentConfig(
            "openai:some-model",
            base_url=endpoint.url,
            api_key_env="SOME_KEY",
            journal=f"sqlite:///{tmp_path}/journal.db",
            namespace="job",
            retry_policy=RetryPolicy(6, 5, 20),
            breaker_threshold=50,
            **fields,
        )

    return _settings


async def _two_calls(ctx: Any, event: Any) -> Any:
    first = await ctx.complete(f"first {event}")
    second = await ctx.complete(f"second {event} {first.text}", model="another-model", temperature=0)
    return event, second.text


def _run(transform: Any, runner: str = "FnApiRunner") -> None:
    scripted.kept.clear()
    pipeline = beam.Pipeline(options=options(runner))
    scripted.keep_all(pipeline | beam.Create([(f"k{i}", i) for i in range(KEYS)]) | transform)
    pipeline.run().wait_until_finish()


def _calls() -> list[Any]:
    return [event.attributes for event in scripted.kept["traces"] if "beam_agents.call_id" in event.attributes]


def test_faults_are_ridden_out_and_the_account_is_the_endpoints(settings: Any) -> None:
    with CountingEndpoint(failing_every=7) as endpoint:
        _run(RunAgent(_two_calls, settings(endpoint)))
        assert sorted(scripted.kept["main"]) == [(n, "hello") for n in range(KEYS)]
        calls = _calls()
        assert endpoint.served == 2 * KEYS == sum(found["beam_agents.billed"] == "true" for found in calls)
        assert endpoint.served + endpoint.failed == sum(int(found["beam_agents.attempts"]) for found in calls)
        billed = sum(
            int(found["gen_ai.usage.input_tokens"]) + int(found["gen_ai.usage.output_tokens"]) for found in calls
        )
        assert endpoint.tokens == billed
        assert {found["gen_ai.request.model"] for found in calls} == {"some-model", "another-model"}
        assert {found["gen_ai.provider.name"] for found in calls} == {"openai"}


def test_the_same_pipeline_again_asks_for_nothing(settings: Any) -> None:
    with CountingEndpoint() as endpoint:
        for _ in range(2):
            _run(RunAgent(_two_calls, settings(endpoint)))
        assert endpoint.served == 2 * KEYS
        assert {found["beam_agents.replay"] for found in _calls()} == {"journal"}
        assert len(scripted.kept["main"]) == KEYS


async def _failing_once(ctx: Any, event: Any) -> Any:
    result = await _two_calls(ctx, event)
    if event == KEYS - 1 and scripted.once("failed"):
        raise RuntimeError("once")
    return result


def test_a_bundle_that_fails_and_is_retried_asks_for_nothing_twice(settings: Any) -> None:
    with CountingEndpoint(failing_every=7) as endpoint:
        _run(RunAgent(_failing_once, settings(endpoint, on_error="raise")), "BundleBasedDirectRunner")
        assert len(scripted.kept["main"]) == KEYS
        assert endpoint.served == 2 * KEYS


def test_calls_without_keys(settings: Any) -> None:
    with CountingEndpoint() as endpoint:
        for _ in range(2):
            _run(Complete(lambda pair: f"ask {pair[0]}", settings(endpoint), to_output=lambda pair, _: pair[1]))
        assert sorted(scripted.kept["main"]) == list(range(KEYS))
        assert endpoint.served == KEYS


async def _other_vendor(ctx: Any, event: Any) -> None:
    await ctx.complete("q", model="no-such-vendor:m")


def test_a_model_name_with_a_colon_is_a_model_of_the_same_endpoint(settings: Any) -> None:
    with CountingEndpoint() as endpoint:
        _run(RunAgent(_other_vendor, settings(endpoint)))
        assert scripted.kept["errors"] == []
        assert {found["gen_ai.request.model"] for found in _calls()} == {"no-such-vendor:m"}
