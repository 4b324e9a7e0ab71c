"""One activation: the agent, run for one event under a hard deadline, and what it came to."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from beam_agents.activation.agent import Agent, agent_name, require_result
from beam_agents.activation.context import AgentContext
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.activation.resources import Resources
from beam_agents.activation.staging import ActivationStaging, Position
from beam_agents.activation.state import encode_state
from beam_agents.errors import ActivationTimeout, JournalOpenError
from beam_agents.model import ReplayCache
from beam_agents.notices import notices
from beam_agents.proto import TraceEvent
from beam_agents.values import TokenUsage

__all__ = ["Activation", "Outcome", "failure_of", "refused", "run_activation"]

_log = logging.getLogger(__name__)

_GRACE_S = 2.0
_NOTHING = TokenUsage(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Activation:
    """One run of `agent` for one event.

    Attributes:
        agent: what to run.
        event: what to run it for.
        position: scope, key and seq of the event.
        state: the key's state as it was committed, JSON.
        cache: the key's replay cache as it was committed; empty unless the event gives its own position.
    """

    agent: Agent
    event: Any
    position: Position
    state: bytes = b""
    cache: bytes = b""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an activation came to: effects to commit together, or a dead letter.

    Attributes:
        position: where it stood. Its seq is committed in either case.
        outputs: what the agent emitted, in order.
        trace_events: one ACTIVATION event, then the LLM_CALL events.
        usage: billed tokens.
        state: the key's state to commit; unchanged by a failed activation.
        cache: the key's replay cache to commit; unchanged by a failed activation.
        dead_letter: set when the activation failed; everything else is empty then.
        error: what ended a failed activation.
    """

    position: Position
    outputs: tuple[Any, ...] = ()
    trace_events: tuple[TraceEvent, ...] = ()
    usage: TokenUsage = _NOTHING
    state: bytes = b""
    cache: bytes = b""
    dead_letter: DeadLetter | None = None
    error: BaseException | None = field(default=None, compare=False)

    @property
    def committed(self) -> bool:
        """Whether the activation succeeded."""
        return self.dead_letter is None


def failure_of(outcome: Outcome, on_error: str) -> BaseException | None:
    """What must fail the whole bundle or job, rather than become a dead letter; else `None`."""
    error = outcome.error
    if isinstance(error, JournalOpenError):  # it is no fault of the event, and would strike every one
        return error
    if error is None or on_error != "raise":
        return None
    failure = RuntimeError(
        f"the activation of key {outcome.position.entity_key!r} seq {outcome.position.seq} failed with "
        f"{type(error).__name__}: {error}; on_error='raise' fails its bundle or job"
    )
    failure.__cause__ = error
    return failure


def refused(activation: Activation, error: BaseException, resources: Resources) -> Outcome:
    """What an activation comes to that cannot even begin: a dead letter of `error`."""
    return _dead(activation, DeadLetter.of(activation.position, activation.event, error), error, resources)


async def run_activation(activation: Activation, resources: Resources) -> Outcome:
    """Run an agent for one event. Never raises for what the agent does, `SystemExit` included.

    The deadline is hard: an agent that is not through by then is cancelled; one that does not heed even that
    is left behind, and its context serves it no more.
    """
    position, config = activation.position, resources.config
    staging = ActivationStaging(position)
    start_ms = resources.now_ms()
    ctx: AgentContext | None = None
    try:
        cache = ReplayCache(activation.cache or None, now_ms=resources.now_ms)
        ctx = AgentContext(
            position,
            resources,
            staging,
            cache,
            stored_state=activation.state,
            deadline_ms=start_ms + config.activation_timeout_s * 1000,
        )
        error = await _run_agent(activation, ctx, config.activation_timeout_s)
        if error is None:
            state = encode_state(ctx.state)
            blob = cache.to_blob() if config.sequence is not None else activation.cache
            event = staging.activation_event(position, start_ms, resources.now_ms(), None)
            return Outcome(position, tuple(ctx.outputs), (event, *staging.events), staging.usage, state, blob)
    except Exception as failure:
        error = failure
    finally:
        staging.seal()
        if ctx is not None:
            ctx.end()
    end_ms = resources.now_ms()
    events = (staging.activation_event(position, start_ms, end_ms, error), *staging.events)
    letter = DeadLetter.of(position, activation.event, error, events, start_ms=start_ms, end_ms=end_ms)
    return _dead(activation, letter, error, resources)


def _dead(activation: Activation, letter: DeadLetter, error: BaseException, resources: Resources) -> Outcome:
    position = activation.position
    if resources.config.on_error == "dead_letter":
        notices.tell(
            "dead_letter",
            resources.now_ms(),
            about=letter.kind,
            kind=letter.kind,
            trace=position.trace_id.hex(),
            seq=position.seq,
            requests=letter.attempts,
            scope=letter.scope or None,
        )
    return Outcome(position, state=activation.state, cache=activation.cache, dead_letter=letter, error=error)


async def _run_agent(activation: Activation, ctx: AgentContext, timeout_s: float) -> BaseException | None:
    """What the agent raised, `ActivationTimeout` when it was not through in time, or `None`."""
    task = asyncio.ensure_future(_guarded(activation, ctx))
    try:
        done, _ = await asyncio.wait((task,), timeout=timeout_s)
        if done:
            return task.result()
        ctx.end()
        task.cancel()
        _, alive = await asyncio.wait((task,), timeout=_GRACE_S)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if alive:
        _log.error("agent %s ignores its cancellation and is left behind", agent_name(activation.agent))
    return ActivationTimeout(timeout_s)


async def _guarded(activation: Activation, ctx: AgentContext) -> BaseException | None:
    """Run the agent; what it raises is returned, because a raised `SystemExit` would stop the loop."""
    try:
        result = await activation.agent(ctx, activation.event)
        require_result(result)
        if result is not None:
            ctx.outputs.append(result)
    except BaseException as error:
        return error
    return None
