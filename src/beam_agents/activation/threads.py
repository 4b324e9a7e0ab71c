"""Where plain functions run that may block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

__all__ = ["Threads"]


class Threads:
    """A thread for each call, at most `most` at once; the others wait. For one event loop.

    Not an executor of the standard library: the end of the process would wait for a function that hangs.
    """

    def __init__(self, most: int) -> None:
        self._places = asyncio.Semaphore(most)

    async def call(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """The result of `fn(*args)`. A function that is waited for no more keeps its place until it returns."""
        await self._places.acquire()
        loop, job = asyncio.get_running_loop(), Future[Any]()
        job.add_done_callback(lambda _: _tell(loop, self._places.release))
        work = partial(copy_context().run, fn, *args)
        try:
            threading.Thread(target=_run, args=(job, work), name="beam-agents-step", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            job.cancel()
            raise
        return await asyncio.wrap_future(job)


def _run(job: Future[Any], work: Callable[[], Any]) -> None:
    if not job.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        job.set_exception(error)
    else:
        job.set_result(result)


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop was closed in the meantime
        loop.call_soon_threadsafe(callback)
