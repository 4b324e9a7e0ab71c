"""A facade on doubles that stand still, and the wire format of the fake provider."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from beam_agents.errors import ResponseDecodeError
from beam_agents.model import (
    CircuitBreaker,
    DecodedResponse,
    LlmFacade,
    LlmRequest,
    ReplayCache,
    RetryPolicy,
    TokenUsage,
)
from beam_agents.ports import LLMClient
from beam_agents.testing import FakeLLM, ManualClock, RecordingSink, RecordingSleep

KEY = b"customer-1"
_LONGEST_TEST_S = 30


def answer(text: str | None = "hello", prompt: int = 10, completion: int = 5, **more: Any) -> bytes:
    """Bytes of an answer on the fake provider's wire."""
    return json.dumps({"text": text, "usage": [prompt, completion], **more}).encode()


def decode(response: bytes) -> DecodedResponse:
    """Reads the fake provider's wire."""
    try:
        told = json.loads(response)
        prompt, completion = told["usage"] or (None, None)
        usage = None if prompt is None else TokenUsage(prompt, completion, prompt + completion)
        return DecodedResponse(
            usage=usage,
            text=told["text"],
            finish_reason=told.get("finish_reason"),
            refusal=told.get("refusal"),
            response_model=told.get("model"),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ResponseDecodeError("not the fake provider's wire") from error


def ask(text: str = "hi", model_id: str = "m-1", **params: Any) -> LlmRequest:
    """A request with one user message."""
    return LlmRequest(model_id, [{"role": "user", "content": text}], sampling_params=params or None)


@dataclass
class Bench:
    """Everything a facade needs, each part at hand."""

    llm: Any = field(default_factory=FakeLLM)
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000_000))
    policy: RetryPolicy = field(default_factory=lambda: RetryPolicy(3, 100, 10_000))
    threshold: int = 100
    cooldown_ms: int = 5_000
    seed: int = 7
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sleep = RecordingSleep(self.clock)
        self.sink = RecordingSink()
        self.cache = ReplayCache(now_ms=self.clock)
        self.rng = random.Random(self.seed)
        self.breaker = CircuitBreaker(
            endpoint="https://llm.example", threshold=self.threshold, cooldown_ms=self.cooldown_ms
        )

    def facade(self, **options: Any) -> LlmFacade:
        """A new facade on these parts, as a new activation would have."""
        client: LLMClient = self.llm
        parts: dict[str, Any] = {
            "now_ms": self.clock,
            "rng": self.rng,
            "sleep": self.sleep,
            "breaker": self.breaker,
            "retry_policy": self.policy,
            "decode": decode,
            "staging": self.sink,
        }
        return LlmFacade(client, self.cache, **{**parts, **self.options, **options})

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of the one staged event."""
        assert len(self.sink.trace_events) == 1
        return dict(self.sink.trace_events[0].attributes)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    return Bench


def _too_long(signum: int, frame: object) -> None:
    pytest.fail(f"still running after {_LONGEST_TEST_S} s: something waits for what never comes")


@pytest.fixture(autouse=True)
def _no_test_hangs() -> Iterator[None]:
    """A broken facade may wait for ever; that is a failure like any other."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_LONGEST_TEST_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
