"""One asyncio loop on a thread of its own for each process: where every activation runs."""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import wait
from contextlib import suppress
from typing import Any, TypeVar

from beam_agents.activation.under_way import UnderWay

__all__ = ["ActivationLoop", "activation_loop", "close_activation_loop"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

STALLED_MARGIN_S = 10.0
"""For how long beyond its deadline an activation may keep the loop from serving anything."""

_CLOSING_S = 5.0
_PATIENCE_S = 1.0
_GARBAGE_THRESHOLD = 25_000


class ActivationLoop:
    """A running event loop, its real clock and its real sleeper.

    Use `activation_loop()`; a second loop in one process would need its own clients.
    """

    def __init__(self) -> None:
        self.loop = _new_event_loop()
        self.rng = random.Random()  # differs from worker to worker, and has no part in what is replayed
        self._posted: deque[Callable[[], None]] = deque()
        self._waking = False
        self._closing = False
        self._pinged_at_s: float | None = None
        self.under_way = UnderWay()
        self._grace_s = 0.0
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._thread = threading.Thread(target=self._serve, name="beam-agents-loop", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether the loop serves no more."""
        return self._closing or not self._thread.is_alive()

    @staticmethod
    def now_ms() -> int:
        """Milliseconds since the epoch."""
        return int(time.time() * 1000)  # noqa: TID251 - the one real clock

    @staticmethod
    async def sleep(ms: float) -> None:
        """Wait `ms` milliseconds."""
        await asyncio.sleep(ms / 1000)  # noqa: TID251 - the one real sleeper

    def post(self, callback: Callable[[], None]) -> None:
        """Have `callback` called on the loop's thread, in order of arrival. Cheap, from any thread."""
        self._posted.append(callback)
        if not self._waking:
            self._waking = True
            self.loop.call_soon_threadsafe(self._deliver)

    def stalled_s(self) -> float:
        """For how many seconds the loop has served nothing, as far as earlier calls of this tell; 0 when it does."""
        now_s = time.monotonic()  # noqa: TID251 - part of the one real clock
        pinged_at_s = self._pinged_at_s  # read once: the loop's thread answers at any moment
        if pinged_at_s is None:
            pinged_at_s = self._pinged_at_s = now_s
            self.post(self._answer_ping)
        return now_s - pinged_at_s

    def require_alive(self, stalled_after_s: float) -> None:
        """Raises `RuntimeError` when the loop is closed, or has served nothing for longer than that."""
        if self.closed:
            raise RuntimeError("the activation loop was closed while activations were under way")
        stalled_s = self.stalled_s()
        if stalled_s > stalled_after_s:
            raise RuntimeError(
                f"an agent has blocked the activation loop for {stalled_s:.0f} s at {self.where()}; "
                "agents must await: put blocking work into ctx.step or asyncio.to_thread"
            )

    def where(self) -> str:
        """The innermost line that the loop's thread is at, for people."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "" if frame is None else f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"

    def run(self, coroutine: Coroutine[Any, Any, _T], timeout_s: float | None = None) -> _T:
        """Run `coroutine` on the loop and wait for its result. Not to be called on the loop's own thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout_s)

    def run_watched(self, coroutine: Coroutine[Any, Any, _T], stalled_after_s: float) -> _T:
        """As `run`, but raises as `require_alive` does when the loop cannot bring `coroutine` to its end."""
        result = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        while not wait((result,), _PATIENCE_S).done:
            try:
                self.require_alive(stalled_after_s)
            except RuntimeError:
                result.cancel()
                raise
        return result.result()

    def on_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Have `closer` awaited when the loop closes, the latest first."""
        self._closers.append(closer)

    def extend_grace(self, grace_s: float) -> None:
        """Have the end wait at least so long, in seconds, for requests under way."""
        self._grace_s = max(self._grace_s, grace_s)

    def close(self) -> None:
        """Release what was opened on the loop, and end its thread. Idempotent.

        Requests under way get their grace, so that their answers reach the journal; then everything is cancelled.
        """
        if self.closed:
            return
        try:
            self.run(self._release(), self._grace_s + _CLOSING_S)
        except Exception as error:
            _log.warning("closing the activation loop: %s: %s", type(error).__name__, error)
        self._closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CLOSING_S)

    def _answer_ping(self) -> None:
        self._pinged_at_s = None

    def _deliver(self) -> None:
        self._waking = False
        while self._posted:
            self._posted.popleft()()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._closing:
            try:
                self.loop.run_forever()
            except BaseException as error:  # a task of an agent raised SystemExit or KeyboardInterrupt
                _log.error("a task on the activation loop raised %s; the loop goes on", type(error).__name__)
        self.loop.close()

    async def _release(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.under_way.finish(), self._grace_s)
        current = asyncio.current_task()
        running = [task for task in asyncio.all_tasks() if task is not current]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_CLOSING_S / 2)
        while self._closers:
            try:
                await self._closers.pop()()
            except Exception as error:
                _log.warning("closing a resource: %s: %s", type(error).__name__, error)


_lock = threading.Lock()
_current: ActivationLoop | None = None


def activation_loop() -> ActivationLoop:
    """The loop of this process; started when first asked for, and anew in a forked child.

    Starting it lets the process search for garbage less often, see `docs/tuning.md`.
    """
    global _current
    with _lock:
        if _current is None or _current.closed:
            _search_for_garbage_less_often()
            _current = ActivationLoop()
        return _current


def close_activation_loop() -> None:
    """Close the loop of this process and everything opened on it. The next use starts a new one."""
    global _current
    with _lock:
        closing, _current = _current, None
    if closing is not None:
        closing.close()


def _forget() -> None:
    global _current, _lock
    _current, _lock = None, threading.Lock()


def _search_for_garbage_less_often() -> None:
    """Beam's modules hold a quarter of a million objects, and looking through them cost more than the activations."""
    first, second, third = gc.get_threshold()
    if 0 < first < _GARBAGE_THRESHOLD:  # 0: somebody has turned it off
        gc.set_threshold(_GARBAGE_THRESHOLD, second, third)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(close_activation_loop)
