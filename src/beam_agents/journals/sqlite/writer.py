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
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from beam_agents.errors import JournalError
from beam_agents.journals.sqlite.faults import at_use, concerns_all

__all__ = ["GroupCommitWriter", "Upkeep", "Write"]

T = TypeVar("T")

Write: TypeAlias = Callable[[sqlite3.Connection], T]
"""Runs on the writer's thread, inside a transaction."""

_BATCH = 1024
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


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    write: Write[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any] | None
    undo: Callable[[Any], Write[None] | None] | None = None


@dataclass(frozen=True, slots=True)
class _Outcome:
    order: _Order
    value: Any = None
    error: Exception | None = None


class GroupCommitWriter:
    """Owns the writing connection. Futures are done only after the commit that holds their write."""

    def __init__(self, connection: sqlite3.Connection, shown: str, upkeep: Upkeep, idle_s: float) -> None:
        self._connection = connection
        self._shown = shown
        self._upkeep = upkeep
        self._idle_s = idle_s
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.stopped = threading.Event()
        _running.add(self)

    def submit(self, write: Write[T], undo: Callable[[T], Write[None] | None] | None = None) -> asyncio.Future[T]:
        """Queue a write; the future gives its result once it is durable.

        When the future is cancelled before that, `undo` of the result, if any, is written next.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._thread is None or self._stopping:
            self._start()
        self._orders.put(_Order(write, loop, future, undo))
        return future

    def stop(self) -> None:
        """Write what is queued, say farewell and end the thread. Returns at once; `stopped` tells when. Idempotent."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            if self._thread is None:
                self._connection.close()
                self.stopped.set()
            else:
                self._orders.put(None)

    def _start(self) -> None:
        with self._lock:
            if self._stopping:
                raise JournalError(f"{self._shown} is closed; open it again by its URI")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="beam-agents journal", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            going_on = True
            while going_on:
                batch, going_on = self._take()
                if batch:
                    _deliver(self, self._commit(batch))
                else:
                    self._at_leisure(self._maintain)
            self._at_leisure(lambda: self._in_transaction(self._upkeep.farewell))
        finally:
            self._connection.close()
            self.stopped.set()

    def _take(self) -> tuple[list[_Order], bool]:
        batch: list[_Order] = []
        try:
            order = self._orders.get(timeout=self._idle_s)
            while order is not None:
                batch.append(order)
                if len(batch) == _BATCH:
                    return batch, True
                order = self._orders.get_nowait()
        except queue.Empty:
            return batch, True
        return batch, False

    def _commit(self, batch: list[_Order]) -> list[_Outcome]:
        try:
            self._maintain()
            values = self._in_transaction(lambda connection: [order.write(connection) for order in batch])
        except Exception as error:
            if len(batch) > 1 and not concerns_all(error):
                return [outcome for order in batch for outcome in self._commit([order])]
            return [_Outcome(order, error=at_use(self._shown, error)) for order in batch]
        return [_Outcome(order, value) for order, value in zip(batch, values, strict=True)]

    def _maintain(self) -> None:
        if self._upkeep.is_due():
            self._in_transaction(self._upkeep.write)
            self._upkeep.done()

    def _in_transaction(self, write: Write[T]) -> T:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            value = write(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return value

    def _at_leisure(self, task: Callable[[], None]) -> None:
        """A heartbeat that fails is made up for by the next, a farewell by the end of the lease."""
        try:
            task()
        except (sqlite3.Error, OSError):
            return

    def resolve(self, outcomes: list[_Outcome]) -> None:
        """Tell the callers of one loop, on that loop; undo what none of them waits for."""
        unwanted = []
        for outcome in outcomes:
            future = outcome.order.future
            if future is None or future.cancelled():
                unwanted.append(outcome)
            elif outcome.error is not None:
                future.set_exception(outcome.error)
            else:
                future.set_result(outcome.value)
        self.undo(unwanted)

    def undo(self, outcomes: list[_Outcome]) -> None:
        """Queue what undoes writes that nobody waits for."""
        for outcome in outcomes:
            order = outcome.order
            if order.undo is None or outcome.error is not None:
                continue
            write = order.undo(outcome.value)
            if write is not None:
                self._orders.put(_Order(write, order.loop, None))


def _deliver(writer: GroupCommitWriter, outcomes: list[_Outcome]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.order.loop, []).append(outcome)
    for loop, theirs in by_loop.items():
        try:
            loop.call_soon_threadsafe(writer.resolve, theirs)
        except RuntimeError:
            writer.undo(theirs)


_running: weakref.WeakSet[GroupCommitWriter] = weakref.WeakSet()


def _stop_all() -> None:
    writers = list(_running)
    for writer in writers:
        writer.stop()
    for writer in writers:
        writer.stopped.wait(_AT_EXIT_S)


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_running.clear)
