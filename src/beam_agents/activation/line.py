"""Lines of work: what is to be done for one key, one after another, while other keys go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from beam_agents.activation.resources import Resources

__all__ = ["Line", "LineWork"]

_Item = TypeVar("_Item")
_Line = TypeVar("_Line", bound="Line[Any]")


@dataclass(slots=True, eq=False, kw_only=True)
class Line(Generic[_Item]):
    """One key's line. `under_way` counts what was put in and is not through; the rest is the loop's.

    `waiting` is a list, because the block of a `deque` takes 600 bytes for each key in flight.
    """

    waiting: list[_Item] = field(default_factory=list)
    at_work: bool = False
    under_way: int = 0


class LineWork(Generic[_Line, _Item]):
    """Works lines off on the loop, each item with a slot, and counts what is under way for back-pressure.

    Args:
        resources: whose loop, slots and admission.
        run: does the work of one item.
        is_wanted: whether a line is still to be worked off; otherwise what waits in it is dropped.
        on_broken: told when `run` raised or was cancelled; what waited in that line is dropped.
    """

    def __init__(
        self,
        resources: Resources,
        run: Callable[[_Line, _Item], Awaitable[None]],
        is_wanted: Callable[[_Line], bool],
        on_broken: Callable[[_Line, BaseException], None],
    ) -> None:
        self._resources = resources
        self._run = run
        self._is_wanted = is_wanted
        self._on_broken = on_broken

    def put(self, line: _Line, item: _Item) -> None:
        """Do `item` after everything that was put into `line` before. From any thread."""
        self._resources.admission.enter(line)
        self._resources.loop.post(lambda: self._enqueue(line, item))

    def _enqueue(self, line: _Line, item: _Item) -> None:
        line.waiting.append(item)
        if not line.at_work:
            line.at_work = True
            task = self._resources.loop.loop.create_task(self._work(line))
            _working.add(task)
            task.add_done_callback(_working.discard)

    async def _work(self, line: _Line) -> None:
        try:
            while line.waiting and self._is_wanted(line):
                async with self._resources.slots:
                    if not self._is_wanted(line):
                        break
                    try:
                        await self._run(line, line.waiting.pop(0))
                    finally:
                        self._resources.admission.leave(line)
        except BaseException as error:
            self._on_broken(line, error)
            raise
        finally:
            line.at_work = False
            dropped = len(line.waiting)
            line.waiting.clear()
            self._resources.admission.leave(line, dropped)


_working: set[asyncio.Task[None]] = set()
