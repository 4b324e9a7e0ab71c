"""What an agent emits, as the declared type."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import orjson

from beam_agents.activation import Agent, AgentContext

__all__ = ["converting", "to_text", "unchanged"]


def to_text(output: Any) -> str:
    """An output as text: a `str` as it is, any other JSON value as its JSON.

    Raises:
        TypeError: for what JSON cannot hold.
    """
    if type(output) is str:
        return output
    try:
        return orjson.dumps(output).decode()
    except TypeError as error:
        raise TypeError(
            f"an output of type {type(output).__name__} is no JSON value ({error}); "
            "emit text or JSON, or declare output_type"
        ) from None


def unchanged(output: Any) -> Any:
    """The output itself, for a declared type."""
    return output


def converting(agent: Agent, to_output: Callable[[Any], Any]) -> Agent:
    """The agent with outputs of the declared type; another type is an error of the activation."""

    @functools.wraps(agent)
    async def converted(ctx: AgentContext, event: Any) -> Any:
        result = await agent(ctx, event)
        ctx.outputs[:] = map(to_output, ctx.outputs)
        return None if result is None else to_output(result)

    return converted
