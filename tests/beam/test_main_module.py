"""Agents and providers that live in `__main__`, lambdas and closures reach the workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_agents import RunAgent
from tests.beam import scripted
from tests.beam.conftest import ENVIRONMENT, config, options

SCRIPT = """
import sys
import apache_beam as beam
from pydantic import BaseModel
from beam_agents import AgentConfig, RunAgent, local_options
from beam_agents.model import DecodedResponse, TokenUsage
from beam_agents.testing import FakeLLM, match_any, respond_with

class Verdict(BaseModel):
    good: bool

def provider():
    return FakeLLM([(match_any(), respond_with(b'{"good": true}'))])

def decode(payload):
    return DecodedResponse(TokenUsage(1, 1, 2), payload.decode())

async def agent(ctx, event):
    result = await ctx.complete(f"judge {event}", output_schema=Verdict)
    return f"{event}:{result.parsed.good}:{ctx.seq}"

if __name__ == "__main__":
    with beam.Pipeline(options=local_options(sys.argv[1:])) as pipeline:
        outputs = pipeline | beam.Create([("a", 1), ("b", 2)]) | RunAgent(
            agent, AgentConfig(provider=provider, decode=decode))
        outputs.main | beam.Map(print)
        outputs.errors | "errors" >> beam.Map(print)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--runner=FnApiRunner"],
        ["--runner=FnApiRunner", "--direct_running_mode=multi_processing"],
        ["--runner=BundleBasedDirectRunner"],
    ],
)
def test_everything_may_live_in_main(arguments: list[str], tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert sorted(done.stdout.split()) == ["1:True:0", "2:True:0"], done.stderr[-2000:]


def test_lambdas_and_closures_are_agents_providers_and_decoders(runner: str) -> None:
    scripted.answer_all()
    suffix = "!"

    async def closure(ctx: Any, event: Any) -> Any:
        return (await ctx.complete(event)).text + suffix

    settings = config(provider=lambda: scripted.provider(), decode=lambda payload: scripted.decode(payload))
    pipeline = beam.Pipeline(options=options(runner))
    scripted.keep_all(pipeline | beam.Create([("k", "x"), ("l", "y")]) | RunAgent(closure, settings))
    pipeline.run().wait_until_finish()
    assert scripted.kept["main"] == ["hello!"] * 2
