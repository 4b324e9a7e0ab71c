"""What an agent is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from beam_agents.activation.context import AgentContext

__all__ = ["Agent", "agent_name", "require_agent", "require_result"]

Agent: TypeAlias = "Callable[[AgentContext, Any], Awaitable[Any]]"
"""`async def agent(ctx, event)`; what it returns is emitted unless it is `None`."""


def require_agent(agent: object) -> None:
    """Raises `TypeError` with one sentence when `agent` is not a coroutine function of two arguments."""
    called = _unwrapped(agent)
    name = agent_name(agent)
    if not callable(agent):
        raise TypeError(f"an agent must be 'async def agent(ctx, event)', but {agent!r} cannot be called")
    if inspect.isasyncgenfunction(called) or inspect.isasyncgenfunction(getattr(called, "__call__", None)):  # noqa: B004
        raise TypeError(f"agent {name} yields its outputs: emit them with ctx.emit(output) instead")
    if not (inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(getattr(called, "__call__", None))):  # noqa: B004
        raise TypeError(f"agent {name} is not a coroutine function: define it with 'async def {name}(ctx, event)'")
    try:
        inspect.signature(agent).bind(None, None)
    except TypeError as error:
        raise TypeError(f"agent {name} must accept the two arguments (ctx, event): {error}") from None
    except ValueError:  # no signature to be had
        pass


def agent_name(agent: object) -> str:
    """The agent's name, for people."""
    called = _unwrapped(agent)
    return getattr(called, "__name__", None) or type(called).__name__


def require_result(value: object) -> None:
    """Raises `TypeError` for a result that can only be a slip, such as a coroutine that was not awaited."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the agent emitted a coroutine: a call lacks its 'await'")
    if isinstance(value, Awaitable):
        raise TypeError(f"the agent emitted a {type(value).__name__}: await it first")
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError("the agent emitted a generator: emit its items with ctx.emit, or make a list")


def _unwrapped(agent: object) -> object:
    while isinstance(agent, functools.partial):
        agent = agent.func
    return agent
