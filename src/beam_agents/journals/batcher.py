"""Sends what many tasks of one loop ask for together, one batch at a time, over one connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeVar

from beam_agents.errors import JournalError

__all__ = ["Batcher"]

Op = TypeVar("Op")

_LIMIT = 256


class _Order(NamedTuple):
    op: Any
    undo: Any
    future: asyncio.Future[Any]


class Batcher(Generic[Op]):
    """Runs batches of operations. `run` gives for each a result, or the `JournalError` that
    only it met, or raises one for all of them.

    An operation may name its undo, which must be harmless where there is nothing to undo: it is run before
    anything else when the operation failed, and so may have had its effect, or when its caller was cancelled.
    """

    def __init__(self, run: Callable[[list[Op]], Awaitable[list[Any]]], shown: str) -> None:
        self._run = run
        self._shown = shown
        self._waiting: deque[_Order] = deque()
        self._undos: list[Op] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pump: asyncio.Task[None] | None = None

    async def obtain(self, op: Op, undo: Op) -> Any:
        """The result of an operation, which is undone where the caller is cancelled before it has it."""
        future = self.submit(op, undo)
        try:
            return await future
        except asyncio.CancelledError:
            future.cancel()
            if not future.cancelled() and future.exception() is None:  # the result was on its way to the caller
                self._undos.append(undo)
                self._start(future.get_loop())
            raise

    def submit(self, op: Op, undo: Op | None = None) -> asyncio.Future[Any]:
        """Queue an operation. Raises `JournalError` on another loop than the first one."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise JournalError(f"{self._shown} is in use on another event loop; open one journal for each loop")
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(_Order(op, undo, future))
        self._start(loop)
        return future

    async def drain(self) -> None:
        """Wait until all that was asked for is done."""
        while self._pump is not None and not self._pump.done():
            await asyncio.wait([self._pump])

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._pump is None or self._pump.done():
            self._pump = loop.create_task(self._work())

    async def _work(self) -> None:
        undone = True
        while self._waiting or (self._undos and undone):
            orders = [self._waiting.popleft() for _ in range(min(_LIMIT, len(self._waiting)))]
            undone = await self._batch(orders)

    async def _batch(self, orders: list[_Order]) -> bool:
        undos = list(self._undos)
        try:
            results = await self._run([*undos, *(order.op for order in orders)])
        except BaseException as error:
            self._fail(orders, error)
            if not isinstance(error, Exception):
                raise
            return False
        del self._undos[: len(undos)]
        for order, result in zip(orders, results[len(undos) :], strict=True):
            self._settle(order, result)
        return True

    def _settle(self, order: _Order, result: object) -> None:
        if order.future.cancelled():
            self._take_back(order)
        elif isinstance(result, JournalError):
            self._fail([order], result)
        else:
            order.future.set_result(result)

    def _fail(self, orders: list[_Order], error: BaseException) -> None:
        for order in orders:
            self._take_back(order)
            if not order.future.done():
                order.future.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())

    def _take_back(self, order: _Order) -> None:
        if order.undo is not None:
            self._undos.append(order.undo)
