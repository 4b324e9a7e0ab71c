"""What an agent is given: its event's position, its state, and the ways to act."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import Any

from pydantic import BaseModel

from beam_agents.activation.agent import require_result
from beam_agents.activation.asking import Messages, second_ask, to_request
from beam_agents.activation.content import record_content
from beam_agents.activation.resources import ModelAccess, Resources
from beam_agents.activation.staging import ActivationStaging, Position
from beam_agents.activation.state import decode_state
from beam_agents.activation.steps import Steps
from beam_agents.errors import DivergenceError, OutputSchemaError
from beam_agents.model import FacadeResult, LlmFacade, ReplayCache, TokenBudget
from beam_agents.model.journaling import Journaling
from beam_agents.ports import CallIdentity, DivergencePolicy, SetAside
from beam_agents.values import Json, LlmRequest

__all__ = ["AgentContext"]


class AgentContext:
    """The `ctx` of one activation. Every effect is held back until the activation succeeds.

    Attributes:
        entity_key: key of the event, as bytes.
        seq: position of the event among those of its key.
        state: one JSON value per key; change it in place or assign it.
        outputs: what was emitted so far.
        diverged_at: under `on_divergence="rerun"`, the first step that asked something else than an earlier run.
    """

    def __init__(
        self,
        position: Position,
        resources: Resources,
        staging: ActivationStaging,
        cache: ReplayCache,
        *,
        stored_state: bytes,
        deadline_ms: float,
        on_divergence: DivergencePolicy = "warn",
    ) -> None:
        config = resources.config
        self.entity_key = position.entity_key
        self.seq = position.seq
        self.state: Any = decode_state(stored_state)
        self.outputs: list[Any] = []
        self._position = position
        self._resources = resources
        self._staging = staging
        self._cache = cache
        self._deadline_ms = deadline_ms
        self._on_divergence = on_divergence
        self.diverged_at: int | None = None
        limit = config.max_tokens_per_activation
        self._budget = None if limit is None else TokenBudget(limit)
        self._facades: dict[int, LlmFacade] = {}
        self._steps: Steps | None = None
        self._next_step = 0
        self._rng: random.Random | None = None
        self._over = False

    @property
    def rng(self) -> random.Random:
        """Randomness that is the same whenever this position runs again."""
        if self._rng is None:
            self._rng = _seeded(self._position, b"agent")
        return self._rng

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._resources.now_ms()

    def emit(self, value: Any) -> None:
        """Add `value` to the activation's outputs. Raises `TypeError` for what can only be a slip."""
        self._require_open()
        require_result(value)
        self.outputs.append(value)

    async def step(self, name: str, fn: Callable[..., Any], *args: Any) -> Json:
        """The JSON result of `fn(*args)`, journaled under `name`: run again, the activation gets it for nothing.

        `fn` may be a coroutine function or a plain one, which runs on a thread. Without a journal it is
        simply called.

        Raises:
            TypeError: when arguments or result are not JSON.
            JournalError: when the result can neither be found nor kept.
        """
        self._require_open()
        if self._steps is None:
            found = self._resources
            self._steps = Steps(self._position, self._journaling(), found.loop.under_way, found.threads)
        return await self._steps.take(self._take_step(), name, fn, args)

    async def complete(
        self,
        messages: Messages,
        *,
        model: str | None = None,
        tools_schema: Json = None,
        output_schema: type[BaseModel] | None = None,
        sample: int | None = None,
        reask: int = 0,
        **sampling_params: Json,
    ) -> FacadeResult:
        """Ask a model through the facade.

        Args:
            messages: one user message, a list of messages, or a whole `LlmRequest`.
            model: another model than the configured one: `vendor:model`, or a model of the same endpoint.
            tools_schema: chat-completions-shaped tool definitions.
            output_schema: Pydantic model that the answer must satisfy; its instance is in `.parsed`.
            sample: makes otherwise equal calls distinct.
            reask: how often to ask again, with the answer and what is wrong with it, after an answer that
                does not satisfy `output_schema`. Each is a new call, billed on its own.
            **sampling_params: further parameters, such as `temperature=0`.

        Raises:
            What `LlmFacade.complete` raises; with `on_open="wait"` an open circuit is waited for first.
        """
        self._require_open()
        if isinstance(reask, bool) or not isinstance(reask, int) or reask < 0:
            raise ValueError(f"reask must be an int of at least 0, not {reask!r}")
        access = self._resources.model(model)
        named = messages.model_id if isinstance(messages, LlmRequest) and model is None else ""
        request = to_request(messages, named or access.model_id, tools_schema, sampling_params)
        for left in range(reask, -1, -1):
            try:
                return await self._asked(access, request, output_schema, sample)
            except OutputSchemaError as error:
                if not left or error.reason == "refused":
                    raise
                request = second_ask(request, error)
        raise AssertionError("unreachable")

    async def set_aside(self) -> tuple[SetAside, ...]:
        """Give up the journal's answers from the step that diverged on; gives those of models.

        Raises `JournalError`.
        """
        journaling, position = self._journaling(), self._position
        if journaling is None or self.diverged_at is None:
            return ()
        place = CallIdentity("", position.entity_key, position.seq, self.diverged_at, scope=position.scope.label)
        return tuple(one for one in await journaling.set_aside(place) if one.call.kind == "call")

    def end(self) -> None:
        """The activation is over: nothing can be asked or emitted any more."""
        self._over = True

    async def _asked(
        self, access: ModelAccess, request: LlmRequest, output_schema: type[BaseModel] | None, sample: int | None
    ) -> FacadeResult:
        step = self._take_step()
        try:
            return await self._ask(access, request, step, output_schema, sample)
        except Exception as error:
            self._note_divergence(error, step)
            if not self._waits_for(access, error):
                raise
        while True:
            self._require_open()
            async with access.gate.passage(self._deadline_ms):
                self._staging.withdraw_unsent(step)
                try:
                    return await self._ask(access, request, step, output_schema, sample)
                except Exception as error:
                    self._note_divergence(error, step)
                    if not self._waits_for(access, error):
                        raise

    def _ask(
        self,
        access: ModelAccess,
        request: LlmRequest,
        step: int,
        output_schema: type[BaseModel] | None,
        sample: int | None,
    ) -> Awaitable[FacadeResult]:
        return self._facade(access).complete(
            request,
            entity_key=self.entity_key,
            seq=self.seq,
            step_index=step,
            output_schema=output_schema,
            sample=sample,
        )

    def _note_divergence(self, error: Exception, step: int) -> None:
        if isinstance(error, DivergenceError) and self._on_divergence == "rerun":
            self.diverged_at = step if self.diverged_at is None else min(step, self.diverged_at)
            self.end()

    def _waits_for(self, access: ModelAccess, error: Exception) -> bool:
        return self._resources.config.on_open == "wait" and access.gate.holds_back(error)

    def _facade(self, access: ModelAccess) -> LlmFacade:
        facade = self._facades.get(id(access.client))
        if facade is None:
            config = self._resources.config
            facade = self._facades[id(access.client)] = LlmFacade(
                access.client,
                self._cache,
                now_ms=self._resources.now_ms,
                rng=_LazyRng(self._position),
                sleep=self._resources.sleep,
                breaker=access.breaker,
                retry_policy=config.retry_policy,
                decode=access.decode,
                staging=self._staging,
                journal=self._resources.journal,
                budget=self._budget,
                deadline_ms=self._deadline_ms,
                on_in_doubt=config.on_in_doubt,
                on_divergence=self._on_divergence,
                scope=self._position.scope.label,
                load=access.load,
                content=partial(record_content, redact=config.redact) if config.record_content else None,
            )
        return facade

    def _journaling(self) -> Journaling | None:
        journal, found = self._resources.journal, self._resources
        if journal is None:
            return None
        return Journaling(journal, found.now_ms, found.sleep, self._deadline_ms, found.config.on_in_doubt)

    def _take_step(self) -> int:
        self._next_step += 1
        return self._next_step - 1

    def _require_open(self) -> None:
        if self._over:
            raise RuntimeError(f"the activation of {self.entity_key!r} seq {self.seq} is over; ctx serves no more")


class _LazyRng:
    """The backoff's randomness; made only when something has to wait."""

    __slots__ = ("_position", "_rng")

    def __init__(self, position: Position) -> None:
        self._position = position
        self._rng: random.Random | None = None

    def uniform(self, a: float, b: float, /) -> float:
        if self._rng is None:
            self._rng = _seeded(self._position, b"backoff")
        return self._rng.uniform(a, b)


def _seeded(position: Position, purpose: bytes) -> random.Random:
    told = b"%s:%d:%d:%s" % (purpose, position.seq, len(position.entity_key), position.entity_key)
    return random.Random(int.from_bytes(sha256(told).digest(), "big"))
