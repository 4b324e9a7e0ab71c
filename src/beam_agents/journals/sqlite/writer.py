"""One thread that writes, and commits together whatever is waiting (group commit)."""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from beam_agents.errors import JournalError
from beam_agents.journals.sqlite.faults import at_use, concerns_all
from beam_agents.journals.sqlite.schema import transaction

__all__ = ["GroupCommitWriter", "Upkeep", "Write"]

T = TypeVar("T")

Write: TypeAlias = Callable[[sqlite3.Connection], T]
"""Runs on the writer's thread, inside a transaction."""

_AT_EXIT_S = 2.0


class Upkeep(Protocol):
    """What the writer's thread does between batches, in transactions of their own."""

    def is_due(self) -> bool:
        """Whether `write` must run before anything else is written."""
        ...

    def write(self, connection: sqlite3.Connection) -> None: ...

    def done(self) -> None:
        """`write` was committed."""
        ...

    def farewell(self, connection: sqlite3.Connection) -> None:
        """The last thing to be written."""
        ...


class _Order:
    """A write that somebody waits for, and what came of it. Made on the loop, filled in by the writer's thread."""

    __slots__ = ("error", "future", "undo", "value", "write")

    def __init__(
        self,
        write: Write[Any],
        future: asyncio.Future[Any] | None,
        undo: Callable[[Any], Write[None] | None] | None = None,
    ) -> None:
        self.write = write
        self.future = future
        self.undo = undo
        self.value: Any = None
        self.error: Exception | None = None


class _Sheaf(NamedTuple):
    """The orders that one loop made in one turn."""

    loop: asyncio.AbstractEventLoop
    orders: list[_Order]


class GroupCommitWriter:
    """Owns the writing connection. Futures are done only after the commit that holds their write."""

    def __init__(self, connection: sqlite3.Connection, shown: str, upkeep: Upkeep, idle_s: float) -> None:
        self._connection = connection
        self._shown = shown
        self._upkeep = upkeep
        self._idle_s = idle_s
        self._sheaves: dict[asyncio.AbstractEventLoop, _Sheaf] = {}
        self._queue: queue.SimpleQueue[_Sheaf | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.stopped = threading.Event()
        _running.add(self)

    def submit(self, write: Write[T]) -> asyncio.Future[T]:
        """Queue a write; the future gives its result once it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._add(loop, _Order(write, future))
        return future

    async def obtain(self, write: Write[T], undo: Callable[[T], Write[None] | None]) -> T:
        """The result of a write, once it is durable.

        Where the caller is cancelled before it has the result, `undo` of the result, if any, is written next.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        order = _Order(write, future, undo)
        self._add(loop, order)
        try:
            return await future
        except asyncio.CancelledError:
            future.cancel()
            if not future.cancelled() and future.exception() is None:  # the result was on its way to the caller
                self._undo(loop, [order])
            raise

    def stop(self) -> None:
        """Write what is queued, say farewell and end the thread. Returns at once; `stopped` tells when. Idempotent."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            if self._thread is None:
                self._connection.close()
                self.stopped.set()
                return
        for loop in list(self._sheaves):
            self._hand_over(loop)
        self._queue.put(None)

    def _start(self) -> None:
        with self._lock:
            if self._stopping:
                raise JournalError(f"{self._shown} is closed; open it again by its URI")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="beam-agents journal", daemon=True)
                self._thread.start()

    def _add(self, loop: asyncio.AbstractEventLoop, order: _Order) -> None:
        if self._thread is None or self._stopping:
            self._start()
        sheaf = self._sheaves.get(loop)
        if sheaf is None:
            sheaf = self._sheaves[loop] = _Sheaf(loop, [])
            loop.call_soon(self._hand_over, loop)
        sheaf.orders.append(order)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        sheaf = self._sheaves.pop(loop, None)
        if sheaf is not None:
            self._queue.put(sheaf)

    def _run(self) -> None:
        try:
            going_on = True
            while going_on:
                sheaves, going_on = self._take()
                if sheaves:
                    self._commit([order for sheaf in sheaves for order in sheaf.orders])
                    self._deliver(sheaves)
                else:
                    self._at_leisure(self._maintain)
            self._at_leisure(lambda: self._in_transaction(self._upkeep.farewell))
        finally:
            self._connection.close()
            self.stopped.set()

    def _take(self) -> tuple[list[_Sheaf], bool]:
        sheaves: list[_Sheaf] = []
        try:
            sheaf = self._queue.get(timeout=self._idle_s)
            while sheaf is not None:
                sheaves.append(sheaf)
                sheaf = self._queue.get_nowait()
        except queue.Empty:
            return sheaves, True
        return sheaves, False

    def _commit(self, orders: list[_Order]) -> None:
        try:
            self._maintain()
            values = self._in_transaction(lambda connection: [order.write(connection) for order in orders])
        except Exception as error:
            if len(orders) > 1 and not concerns_all(error):
                for order in orders:
                    self._commit([order])
                return
            for order in orders:
                order.error = at_use(self._shown, error)
            return
        for order, value in zip(orders, values, strict=True):
            order.value = value

    def _maintain(self) -> None:
        if self._upkeep.is_due():
            self._in_transaction(self._upkeep.write)
            self._upkeep.done()

    def _in_transaction(self, write: Write[T]) -> T:
        with transaction(self._connection):
            return write(self._connection)

    def _at_leisure(self, task: Callable[[], None]) -> None:
        """A heartbeat that fails is made up for by the next, a farewell by the end of the lease."""
        try:
            task()
        except (sqlite3.Error, OSError):
            return

    def _deliver(self, sheaves: list[_Sheaf]) -> None:
        for loop, orders in sheaves:
            try:
                loop.call_soon_threadsafe(self._resolve, orders)
            except RuntimeError:  # the loop is closed
                self._undo(loop, orders)

    def _resolve(self, orders: list[_Order]) -> None:
        unwanted = []
        for order in orders:
            if order.future is None or order.future.cancelled():
                unwanted.append(order)
            elif order.error is not None:
                order.future.set_exception(order.error)
            else:
                order.future.set_result(order.value)
        if unwanted:
            self._undo(asyncio.get_running_loop(), unwanted)

    def _undo(self, loop: asyncio.AbstractEventLoop, orders: list[_Order]) -> None:
        done = [order for order in orders if order.undo is not None and order.error is None]
        writes = [write for order in done if order.undo and (write := order.undo(order.value)) is not None]
        if writes:
            self._queue.put(_Sheaf(loop, [_Order(write, None) for write in writes]))


_running: weakref.WeakSet[GroupCommitWriter] = weakref.WeakSet()


def _stop_all() -> None:
    writers = list(_running)
    for writer in writers:
        writer.stop()
    for writer in writers:
        writer.stopped.wait(_AT_EXIT_S)


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_running.clear)
