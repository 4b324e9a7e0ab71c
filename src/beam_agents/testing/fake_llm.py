"""A scripted `LLMClient`: the first rule whose matcher accepts the request decides the behaviour."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from beam_agents.ports import Sleep
from beam_agents.values import LlmRequest, LlmResponse

__all__ = [
    "Behaviour",
    "FakeLLM",
    "Matcher",
    "UnmatchedRequestError",
    "fail_then_succeed",
    "match_any",
    "match_contains",
    "match_model_id",
    "raise_error",
    "respond_with",
]

Matcher: TypeAlias = Callable[[LlmRequest], bool]
"""Whether a rule applies to a request."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a rule does on the `n`-th equal request (counted from 1): wait, then raise or answer."""

    outcome: Callable[[int], bytes | BaseException]
    latency_ms: float = 0


class UnmatchedRequestError(Exception):
    """No rule matched `request`. Not a `ProviderError`: the script is wrong, not the endpoint."""

    def __init__(self, request: LlmRequest) -> None:
        super().__init__(f"no rule matches a request for model {request.model_id!r}; add one with add_rule()")
        self.request = request

    def __reduce__(self) -> tuple[type[UnmatchedRequestError], tuple[LlmRequest]]:
        return type(self), (self.request,)


def match_any() -> Matcher:
    """Matches every request."""
    return lambda _: True


def match_contains(text: str) -> Matcher:
    """Matches a request with `text` in the content of one of its messages, text parts included."""
    return lambda request: any(text in content for content in _texts(request))


def match_model_id(model_id: str) -> Matcher:
    """Matches a request for exactly this model."""
    return lambda request: request.model_id == model_id


def respond_with(payload: bytes, latency_ms: float = 0) -> Behaviour:
    """Answers with `payload`, verbatim."""
    return Behaviour(lambda _: payload, latency_ms)


def raise_error(error: BaseException, latency_ms: float = 0) -> Behaviour:
    """Raises this very `error`, each time."""
    return Behaviour(lambda _: error, latency_ms)


def fail_then_succeed(*, error: BaseException, times: int, payload: bytes, latency_ms: float = 0) -> Behaviour:
    """Raises `error` for the first `times` of equal requests, then answers with `payload`."""
    return Behaviour(lambda count: error if count <= times else payload, latency_ms)


class FakeLLM:
    """An `LLMClient` that plays a script and remembers what it was asked.

    `rules` are pairs of matcher and behaviour; the first match decides. `delay` waits for a behaviour's
    latency, in milliseconds (default: real time). Usable from several loops and threads.
    """

    provider_name = "fake"

    def __init__(self, rules: Iterable[tuple[Matcher, Behaviour]] = (), *, delay: Sleep | None = None) -> None:
        self._rules = list(rules)
        self._delay = delay or _real_delay
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()
        self.requests: list[LlmRequest] = []

    def add_rule(self, matcher: Matcher, behaviour: Behaviour) -> FakeLLM:
        """Append a rule; returns the fake, so that calls chain."""
        self._rules.append((matcher, behaviour))
        return self

    @property
    def call_count(self) -> int:
        """How many requests arrived."""
        return len(self.requests)

    def calls_for(self, request: LlmRequest) -> int:
        """How many requests equal to `request` arrived."""
        with self._lock:
            return self.requests.count(request)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """Play the first matching rule. Raises `UnmatchedRequestError` when there is none."""
        with self._lock:
            self.requests.append(request)
            self._seen[repr(request)] += 1
            count = self._seen[repr(request)]
        behaviour = next((behaviour for matches, behaviour in self._rules if matches(request)), None)
        if behaviour is None:
            raise UnmatchedRequestError(request)
        if behaviour.latency_ms:
            await self._delay(behaviour.latency_ms)
        outcome = behaviour.outcome(count)
        if isinstance(outcome, BaseException):
            raise outcome
        return LlmResponse(outcome)


def _texts(request: LlmRequest) -> Iterable[str]:
    for message in request.messages:
        content = message.get("content")
        if isinstance(content, str):
            yield content
        elif isinstance(content, (list, tuple)):
            yield from (
                part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
            )


async def _real_delay(ms: float) -> None:
    await asyncio.sleep(ms / 1000)  # noqa: TID251 - a fake endpoint's latency is real unless a delay is injected
