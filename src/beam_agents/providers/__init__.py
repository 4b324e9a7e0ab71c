"""Clients of models: one file per vendor, one line in the table below."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_agents.providers.anthropic import AnthropicClient
    from beam_agents.providers.gemini import GeminiClient
    from beam_agents.providers.http_client import HttpClient
    from beam_agents.providers.openai import OpenAIClient
    from beam_agents.providers.preflight import schema_report

__all__ = ["PROVIDERS", "AnthropicClient", "GeminiClient", "OpenAIClient", "load_provider", "schema_report"]

PROVIDERS: dict[str, str] = {
    "anthropic": "beam_agents.providers.anthropic:AnthropicClient",
    "gemini": "beam_agents.providers.gemini:GeminiClient",
    "openai": "beam_agents.providers.openai:OpenAIClient",
}
"""Which class serves which vendor; imported when first asked for."""

_LAZY = {path.partition(":")[2]: path for path in PROVIDERS.values()}
_LAZY["schema_report"] = "beam_agents.providers.preflight:schema_report"


def load_provider(
    spec: str, *, base_url: str | None = None, api_key_env: str | None = None, **options: Any
) -> HttpClient:
    """The client for `spec`, such as `openai:gpt-4o-mini`. It carries `model_id` and `decode`.

    `options` are further arguments of the vendor's client.

    Raises:
        ValueError: for a spec that names no vendor in the table, or no model.
    """
    vendor, colon, model_id = spec.partition(":")
    if not colon or not model_id or vendor not in PROVIDERS:
        known = ", ".join(f"{name}:MODEL" for name in sorted(PROVIDERS))
        raise ValueError(f"model {spec!r} is not of the form vendor:model; known are {known}")
    client: HttpClient = _resolve(PROVIDERS[vendor])(
        base_url=base_url, api_key_env=api_key_env, model_id=model_id, **options
    )
    return client


def _resolve(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return _resolve(_LAZY[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
