"""`ctx.step`: a side effect whose JSON result is journaled and replayed."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import orjson

from beam_agents.activation.staging import Position
from beam_agents.activation.threads import Threads
from beam_agents.activation.under_way import UnderWay
from beam_agents.model.journaling import Journaling
from beam_agents.ports import CallIdentity, Intent, JournalFinding
from beam_agents.values import Json, LlmResponse

__all__ = ["Steps"]


class Steps:
    """The journaled side effects of one activation.

    The same name with the same arguments, for the n-th time in the activation, is the same step.
    """

    __slots__ = ("_journaling", "_position", "_taken", "_threads", "_under_way")

    def __init__(
        self, position: Position, journaling: Journaling | None, under_way: UnderWay, threads: Threads
    ) -> None:
        self._position = position
        self._journaling = journaling
        self._under_way = under_way
        self._threads = threads
        self._taken: Counter[bytes] = Counter()

    async def take(self, step_index: int, name: str, fn: Callable[..., Any], args: tuple[Any, ...]) -> Json:
        """The result of `fn(*args)`: from the journal, or by calling it. A plain function runs on a thread.

        Raises:
            TypeError: when arguments or result are not JSON.
            JournalError: when the journal can neither find nor keep the result.
        """
        call = self._identified(step_index, name, args)
        if self._journaling is None:
            result: Json = orjson.loads(_encoded(name, await self._called(fn, args)))
            return result
        return await self._journaled(self._journaling, call, name, fn, args)

    async def _journaled(
        self, journaling: Journaling, call: CallIdentity, name: str, fn: Callable[..., Any], args: tuple[Any, ...]
    ) -> Json:
        while True:
            finding = await journaling.look_up(call)
            if finding.answer is not None:
                stored: Json = orjson.loads(finding.answer.response)
                return stored
            async with self._under_way:
                intent = await journaling.begin(call, finding.past[-1].ordinal if finding.past else 0)
                if not isinstance(intent, JournalFinding):
                    return await self._taken_by(journaling, intent, name, fn, args)

    async def _taken_by(
        self, journaling: Journaling, intent: Intent, name: str, fn: Callable[..., Any], args: tuple[Any, ...]
    ) -> Json:
        try:
            encoded = _encoded(name, await self._called(fn, args))
        except BaseException as error:
            await journaling.record_failure(intent, "failed" if isinstance(error, Exception) else "in_doubt", error)
            raise
        standing = await journaling.record_answer(intent, LlmResponse(encoded), None)
        result: Json = orjson.loads(encoded if standing is None else standing.response)
        return result

    async def _called(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if inspect.iscoroutinefunction(fn):
            return await fn(*args)
        result = await self._threads.call(fn, args)
        return await result if inspect.isawaitable(result) else result

    def _identified(self, step_index: int, name: str, args: tuple[Any, ...]) -> CallIdentity:
        position = self._position
        try:
            told = orjson.dumps(
                [position.entity_key.hex(), position.seq, name, list(args)], option=orjson.OPT_SORT_KEYS
            )
        except TypeError as error:
            raise TypeError(f"arguments of step {name!r} must be JSON values: {error}") from None
        occurrence = self._taken[told]
        self._taken[told] += 1
        call_id = sha256(b"step:%d:" % occurrence + told).hexdigest()
        return CallIdentity(
            call_id, position.entity_key, position.seq, step_index, "", position.scope.label, kind="step"
        )


def _encoded(name: str, result: Any) -> bytes:
    try:
        return orjson.dumps(result)
    except TypeError as error:
        raise TypeError(f"step {name!r} must return a JSON value: {error}") from None
