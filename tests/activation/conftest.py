"""Resources on this test's own event loop, with an injected clock and sleeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from beam_agents.activation import AgentConfig, close_activation_loop
from beam_agents.activation.loop import activation_loop
from beam_agents.activation.resources import Resources
from beam_agents.activation.run import Activation, Outcome, run_activation
from beam_agents.activation.staging import Position, Scope
from beam_agents.journals.memory import reset_memory_journals
from beam_agents.model import DecodedResponse, TokenUsage, reset_circuit_breakers
from beam_agents.testing import FakeLLM, ManualClock, RecordingSleep

SCOPE = Scope("test")


def body(text: str = "hello", tokens: int = 5) -> bytes:
    return orjson.dumps({"text": text, "tokens": tokens})


def decode(payload: bytes) -> DecodedResponse:
    told = orjson.loads(payload)
    return DecodedResponse(TokenUsage(told["tokens"] - 1, 1, told["tokens"]), told["text"])


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    reset_circuit_breakers()
    reset_memory_journals()
    yield
    close_activation_loop()


@pytest.fixture
def llm() -> FakeLLM:
    return FakeLLM()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def sleep(clock: ManualClock) -> RecordingSleep:
    return RecordingSleep(clock)


@pytest.fixture
def resources(llm: FakeLLM, clock: ManualClock, sleep: RecordingSleep) -> Callable[..., Resources]:
    """Makes resources over the scripted model; keywords go into the configuration."""

    def _make(**fields: Any) -> Resources:
        settings = AgentConfig(**({"provider": lambda: llm, "decode": decode} | fields))
        return Resources(settings, activation_loop(), now_ms=clock, sleep=sleep)

    return _make


@pytest.fixture
def run(resources: Callable[..., Resources]) -> Callable[..., Any]:
    """Runs an agent for one event; keywords go into the configuration."""

    async def _run(
        agent: Any, event: Any = "event", *, key: bytes = b"k", seq: int = 0, state: bytes = b"", **fields: Any
    ) -> Outcome:
        position = Position(SCOPE, key, seq)
        return await run_activation(Activation(agent, event, position, state), resources(**fields))

    return _run
