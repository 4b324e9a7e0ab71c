"""`AgentConfig`: everything that a transform needs to know, validated when built, picklable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from beam_agents.model import RetryPolicy
from beam_agents.ports import Decode, InDoubtPolicy, LLMClient

__all__ = ["AgentConfig"]

_RETRY_POLICY = RetryPolicy(max_attempts=4, base_ms=500, max_ms=30_000)

_CHOICES = {
    "on_error": ("dead_letter", "raise"),
    "on_in_doubt": ("repay", "fail", "defer"),
    "commit": ("bundle", "timer"),
    "on_open": ("wait", "dead_letter"),
}


@dataclass(frozen=True)
class AgentConfig:
    """How agents run and how they reach their model.

    Either `model`, such as `"openai:gpt-4o-mini"`, or `provider` together with `decode`.

    Attributes:
        model: `vendor:model`; `ctx.complete` uses it unless told otherwise.
        provider: picklable zero-argument factory of an `LLMClient`, called once per process.
        decode: reads the bytes of that provider's answers.
        base_url: endpoint of the vendor's API, when it is not the vendor's own.
        api_key_env: name of the environment variable that holds the key on the worker.
        retry_policy: how a failed request is retried.
        breaker_threshold: consecutive failed requests that open the circuit of an endpoint.
        breaker_cooldown_ms: how long an open circuit waits before a trial.
        journal: URI of the journal, such as `sqlite:///journal.db`, or `None`.
        max_in_flight: activations at work at once in one process.
        activation_timeout_s: hard deadline of one activation, in seconds.
        max_tokens_per_activation: token limit of one activation, or `None`.
        on_error: `dead_letter` makes a failed activation a record; `raise` fails the bundle.
        on_in_doubt: what to do when an earlier process died with the request in flight.
        sequence: takes an event's position from the event; `None` counts events per key.
        namespace: scopes positions and journal records; `None` is the transform's full label.
        commit: `bundle` commits with the bundle; `timer` (experimental) commits by timers.
        on_open: while a circuit is open, `wait` for it or make a `dead_letter`.

    Raises:
        ValueError: when a field has no sensible value; the message names field and value.
    """

    model: str | None = None
    provider: Callable[[], LLMClient] | None = None
    decode: Decode | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    retry_policy: RetryPolicy = _RETRY_POLICY
    breaker_threshold: int = 10
    breaker_cooldown_ms: int = 10_000
    journal: str | None = None
    max_in_flight: int = 256
    activation_timeout_s: float = 300.0
    max_tokens_per_activation: int | None = None
    on_error: Literal["dead_letter", "raise"] = "dead_letter"
    on_in_doubt: InDoubtPolicy = "repay"
    sequence: Callable[[Any], int] | None = None
    namespace: str | None = None
    commit: Literal["bundle", "timer"] = "bundle"
    on_open: Literal["wait", "dead_letter"] = "wait"
