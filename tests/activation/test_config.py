"""Configurations are validated when built, by field and value."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from beam_agents.activation import AgentConfig
from beam_agents.model import RetryPolicy


def _provider(api_key: str = "") -> Any: ...


def _decode(payload: bytes) -> Any: ...


@dataclass(frozen=True)
class _Client:
    api_key: str


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "give either model or provider"),
        ({"model": "openai:m", "provider": _provider, "decode": _decode}, "give either model or provider"),
        ({"model": "gpt-4o-mini"}, "model must look like 'openai:gpt-4o-mini', not 'gpt-4o-mini'"),
        ({"model": ":m"}, "model must look like"),
        ({"model": 5}, "model must look like"),
        ({"model": "openai:m", "decode": _decode}, "decode belongs to provider"),
        ({"provider": _provider}, "decode must read"),
        ({"provider": object(), "decode": _decode}, "provider must be a factory"),
        ({"provider": _provider, "decode": _decode, "base_url": "http://x"}, "base_url='http://x' has no effect"),
        ({"provider": _provider, "decode": _decode, "structured_output": "prompt"}, "'prompt' has no effect"),
        ({"model": "openai:m", "structured_output": "maybe"}, "must be one of native, prompt, not 'maybe'"),
        ({"model": "openai:m", "output_schemas": [int]}, "output_schemas must be a tuple of Pydantic models"),
        ({"model": "openai:m", "base_url": "localhost:80"}, "base_url must be an http"),
        ({"model": "openai:m", "retry_policy": 3}, "retry_policy must be a RetryPolicy, not 3"),
        ({"model": "openai:m", "breaker_threshold": 0}, "breaker_threshold must be an int of at least 1, not 0"),
        ({"model": "openai:m", "breaker_cooldown_ms": -1}, "breaker_cooldown_ms must be an int of at least 0"),
        ({"model": "openai:m", "max_in_flight": True}, "max_in_flight must be an int of at least 1, not True"),
        ({"model": "openai:m", "activation_timeout_s": 0}, "activation_timeout_s must be a positive, finite"),
        ({"model": "openai:m", "activation_timeout_s": float("inf")}, "activation_timeout_s"),
        ({"model": "openai:m", "closing_grace_s": -1}, "closing_grace_s must be a finite number"),
        ({"model": "openai:m", "activation_timeout_s": float("nan")}, "activation_timeout_s"),
        ({"model": "openai:m", "max_tokens_per_activation": -1}, "max_tokens_per_activation"),
        ({"model": "openai:m", "on_error": "ignore"}, "on_error must be one of dead_letter, raise, not 'ignore'"),
        ({"model": "openai:m", "on_in_doubt": "x"}, "on_in_doubt must be one of repay, fail, defer"),
        ({"model": "openai:m", "commit": "x"}, "commit must be one of"),
        ({"model": "openai:m", "on_open": "x"}, "on_open must be one of"),
        ({"model": "openai:m", "sequence": "id"}, "sequence must take an event"),
        ({"model": "openai:m", "namespace": ""}, "namespace must be a text"),
        ({"model": "openai:m", "requests_per_minute": 0}, "requests_per_minute must be a positive, finite"),
        ({"model": "openai:m", "tokens_per_minute": float("inf")}, "tokens_per_minute must be"),
        ({"model": "openai:m", "retry_budget": 1.5}, "retry_budget must be .* of at most 1"),
        ({"model": "openai:m", "max_in_flight_per_endpoint": 0}, "max_in_flight_per_endpoint must be an int"),
        ({"model": "openai:m", "journal": "journal.db"}, "journal must be a URI such as 'sqlite:///journal.db'"),
        ({"model": "opnai:m"}, "model='opnai:m' names no vendor that there is: known are anthropic, gemini, openai"),
        ({"model": "openai:m", "journal": "sqlit:///a.db"}, "no journal is called 'sqlit'; there are memory, postgres"),
        ({"model": "openai:m", "journal": "redis://u:p@w@h"}, "must be percent-encoded"),
    ],
)
def test_a_senseless_field_is_named_with_its_value(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        AgentConfig(**fields)


def test_no_secret_is_shown() -> None:
    with pytest.raises(ValueError, match="environment variable") as refused:
        AgentConfig("openai:m", api_key_env="sk-secret-key")
    assert "sk-secret" not in str(refused.value)
    with pytest.raises(ValueError, match="URI") as refused:
        AgentConfig("openai:m", journal="user:secret@host/db")
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(AgentConfig("openai:m", journal="postgresql://user:secret@host/db"))


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "openai:m", "provider": partial(_provider, api_key="pa55word")},
        {"provider": partial(_provider, api_key="pa55word")},
        {"provider": _Client("pa55word"), "decode": _decode},
        {"provider": _provider, "decode": _decode, "base_url": "https://user:pa55word@gw/"},
        {"provider": _provider, "decode": _decode, "api_key_env": "pa55word"},
        {"model": "openai:m", "base_url": "htps://user:pa55word@gw/"},
        {"model": "openai:m", "base_url": "user:pa55?word@gw"},
        {"model": "openai:m", "base_url": "htps://gw/?key=pa55word"},
        {"model": "openai:m", "base_url": "https://user:pa55word@gw/"},
    ],
)
def test_no_error_shows_what_a_factory_or_url_holds(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"provider|base_url|api_key_env") as refused:
        AgentConfig(**fields)
    assert "pa55" not in str(refused.value)


def test_no_repr_shows_what_a_factory_or_url_holds() -> None:
    assert "pa55word" not in repr(AgentConfig(provider=partial(_provider, api_key="pa55word"), decode=_decode))
    assert "pa55word" not in repr(AgentConfig("openai:m", base_url="https://gw/?key=pa55word"))


def test_a_threshold_that_one_call_can_reach_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"breaker_threshold=3 is not above retry_policy.max_attempts=4"):
        AgentConfig("openai:m", breaker_threshold=3, retry_policy=RetryPolicy(4, 1, 1))


def test_it_pickles_and_is_frozen() -> None:
    config = AgentConfig("openai:m", journal="sqlite:///x.db", max_in_flight=3)
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert again.identity == config.identity
    with pytest.raises(AttributeError):
        config.max_in_flight = 4  # type: ignore[misc]
