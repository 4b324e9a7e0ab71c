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
from beam_agents.activation.saying import said_by
from beam_agents.activation.staging import ActivationStaging, Position
from beam_agents.activation.state import encode_state
from beam_agents.errors import ActivationTimeout, JournalError, JournalOpenError
from beam_agents.model import ReplayCache
from beam_agents.notices import notices
from beam_agents.ports import DivergencePolicy
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
        traces: `trace_events` as they are serialized.
        usage: billed tokens.
        state: the key's state to commit; unchanged by a failed activation.
        cache: the key's replay cache to commit; unchanged by a failed activation.
        dead_letter: set when the activation failed; everything else is empty then.
        error: what ended a failed activation.
    """

    position: Position
    outputs: tuple[Any, ...] = ()
    traces: tuple[bytes, ...] = ()
    usage: TokenUsage = _NOTHING
    state: bytes = b""
    cache: bytes = b""
    dead_letter: DeadLetter | None = None
    error: BaseException | None = field(default=None, compare=False)

    @property
    def committed(self) -> bool:
        """Whether the activation succeeded."""
        return self.dead_letter is None

    @property
    def trace_events(self) -> tuple[TraceEvent, ...]:
        """One ACTIVATION event, then the LLM_CALL events; read anew each time."""
        return tuple(map(TraceEvent.FromString, self.traces))

    @property
    def took_ms(self) -> int:
        """How long the agent ran, in milliseconds."""
        told = self.dead_letter or TraceEvent.FromString(self.traces[0])
        return told.end_ms - told.start_ms


def failure_of(outcome: Outcome, on_error: str) -> BaseException | None:
    """What must fail the whole bundle or job, rather than become a dead letter; else `None`."""
    error = outcome.error
    if isinstance(error, JournalOpenError):  # it is no fault of the event, and would strike every one
        return error
    if error is None or on_error != "raise":
        return None
    failure = RuntimeError(
        f"the activation of key {outcome.position.entity_key!r} seq {outcome.position.seq} failed with "
        f"{type(error).__name__}: {said_by(error)}; on_error='raise' fails its bundle or job"
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

    Under `on_divergence="rerun"` an activation that asks something else than an earlier run is started again, once
    and within the same deadline; of its first start nothing is staged.
    """
    start_ms = resources.now_ms()
    run = _Run(activation, resources, start_ms, ActivationStaging(activation.position))
    ended = await run.to_its_end(resources.config.on_divergence)
    if run.ctx is not None and run.ctx.diverged_at is not None:
        try:
            given_up = await run.ctx.set_aside()
        except JournalError as error:
            return run.dead(error)
        run = _Run(activation, resources, start_ms, ActivationStaging(activation.position, given_up))
        ended = await run.to_its_end("warn")
    return ended if isinstance(ended, Outcome) else run.dead(ended)


@dataclass(slots=True)
class _Run:
    """One start of the agent."""

    activation: Activation
    resources: Resources
    start_ms: int
    staging: ActivationStaging
    ctx: AgentContext | None = None

    async def to_its_end(self, on_divergence: DivergencePolicy) -> Outcome | BaseException:
        """Run the agent; gives what it committed, or what made it fail."""
        try:
            cache = self._cache()
            ctx = self.ctx = self._context(cache, on_divergence)
            error = await _run_agent(self.activation, ctx, self._left_s())
            return self._committed(ctx, cache) if error is None else error
        except Exception as failure:
            return failure
        finally:
            self.staging.seal()
            if self.ctx is not None:
                self.ctx.end()

    def dead(self, error: BaseException) -> Outcome:
        """What comes of a run that `error` ended."""
        activation, start_ms, end_ms = self.activation, self.start_ms, self.resources.now_ms()
        events = self._own_event(end_ms, error), *self.staging.events
        letter = DeadLetter.of(activation.position, activation.event, error, events, start_ms=start_ms, end_ms=end_ms)
        return _dead(activation, letter, error, self.resources)

    def _own_event(self, end_ms: int, error: BaseException | None) -> TraceEvent:
        name, position = agent_name(self.activation.agent), self.activation.position
        return self.staging.activation_event(position, self.start_ms, end_ms, error, name)

    def _cache(self) -> ReplayCache:
        cache = ReplayCache(self.activation.cache or None, now_ms=self.resources.now_ms)
        for one in self.staging.set_aside:
            cache.forget(one.call.call_id)
        return cache

    def _context(self, cache: ReplayCache, on_divergence: DivergencePolicy) -> AgentContext:
        return AgentContext(
            self.activation.position,
            self.resources,
            self.staging,
            cache,
            stored_state=self.activation.state,
            deadline_ms=self.start_ms + self.resources.config.activation_timeout_s * 1000,
            on_divergence=on_divergence,
        )

    def _left_s(self) -> float:
        return self.resources.config.activation_timeout_s - (self.resources.now_ms() - self.start_ms) / 1000

    def _committed(self, ctx: AgentContext, cache: ReplayCache) -> Outcome:
        position, staging = self.activation.position, self.staging
        state = encode_state(ctx.state)
        blob = cache.to_blob() if self.resources.config.sequence is not None else self.activation.cache
        traces = self._own_event(self.resources.now_ms(), None).SerializeToString(), *staging.written
        return Outcome(position, tuple(ctx.outputs), traces, staging.usage, state, blob)


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
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    task = loop.create_task(_guarded(activation, ctx, over))
    timer = loop.call_later(timeout_s, _tell, over)
    try:
        await over
        if task.done():
            return task.result()
        ctx.end()
        task.cancel()
        _, running = await asyncio.wait((task,), timeout=_GRACE_S)
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        timer.cancel()
    if running:
        _log.error("agent %s ignores its cancellation and is left behind", agent_name(activation.agent))
    return ActivationTimeout(timeout_s)


def _tell(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


async def _guarded(activation: Activation, ctx: AgentContext, over: asyncio.Future[None]) -> BaseException | None:
    """Run the agent and tell when it is over; what it raises is returned: a raised `SystemExit` would stop the loop."""
    try:
        result = await activation.agent(ctx, activation.event)
        require_result(result)
        if result is not None:
            ctx.outputs.append(result)
    except BaseException as error:
        return error
    finally:
        _tell(over)
    return None
