"""From what an agent writes to a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from beam_agents.errors import OutputSchemaError
from beam_agents.values import Json, JsonObject, LlmRequest, well_formed

__all__ = ["Messages", "second_ask", "to_request"]

Messages: TypeAlias = str | Sequence[JsonObject] | LlmRequest
"""What an agent may ask with: one user message, a list of messages, or a whole request."""


def to_request(messages: Messages, model_id: str, tools_schema: Json, sampling: Mapping[str, Json]) -> LlmRequest:
    """The request that an agent means. What it names beside an `LlmRequest` overrides the request's own.

    Raises:
        TypeError: for anything but `Messages`.
    """
    if isinstance(messages, LlmRequest):
        own = messages.sampling_params
        return replace(
            messages,
            model_id=model_id,
            tools_schema=messages.tools_schema if tools_schema is None else tools_schema,
            sampling_params={**(own or {}), **sampling} if sampling else own,
        )
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, (list, tuple)):
        raise TypeError(f"messages must be a str, a list of messages or an LlmRequest, not {type(messages).__name__}")
    return LlmRequest(model_id, list(messages), tools_schema, dict(sampling) or None)


def second_ask(request: LlmRequest, error: OutputSchemaError) -> LlmRequest:
    """`request`, followed by the answer that did not do and what is wrong with it."""
    answer: list[JsonObject] = [{"role": "assistant", "content": well_formed(error.text)}] if error.text else []
    complaint: JsonObject = {
        "role": "user",
        "content": f"That answer cannot be used: {error}. Answer again, with nothing but JSON that fits the schema.",
    }
    return replace(request, messages=[*request.messages, *answer, complaint])
