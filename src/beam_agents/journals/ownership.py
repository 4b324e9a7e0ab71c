"""Who stands behind an intent, and whether they still do.

Each opening of a journal is a *session* with a lease that its heartbeat extends. An intent is alive while its
session's lease runs. A process knows its own sessions: those of the same owner are alive while they are open,
whatever the clock says.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import weakref
from collections.abc import Awaitable, Callable

from beam_agents.errors import JournalError
from beam_agents.journals.uri import Terms

__all__ = ["Heartbeat", "Session", "process_owner"]

_open_sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()


def process_owner() -> str:
    """Name of this process as an owner, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Session:
    """One opening of a journal by one process. Thread-safe."""

    def __init__(self, owner: str | None, terms: Terms) -> None:
        self.id = secrets.token_hex(8)
        self.owner = owner or process_owner()
        self.terms = terms
        self.closed = False
        self._refusal = ""
        _open_sessions[self.id] = self

    def check(self) -> None:
        """Raises `JournalError` when the session is closed, or belongs to the parent of a forked process."""
        if self._refusal:
            raise JournalError(self._refusal)

    def close(self) -> None:
        """Stop being alive. Idempotent."""
        self.closed = True
        self._refusal = "this journal is closed; open it again by its URI"
        _open_sessions.pop(self.id, None)

    def disown(self) -> None:
        """Refuse to be used in a process that was forked from the session's own."""
        self._refusal = "this journal was opened before the fork; a forked process must open its own by the URI"

    def left_ms(self, session_id: str, lease_until_ms: int | None, now_ms: int) -> float | None:
        """How long the lease of a session still runs; `None` when it does not."""
        left = 0.0 if lease_until_ms is None else float(lease_until_ms - now_ms)
        if self.is_kin(session_id):
            return max(left, float(self.terms.heartbeat_ms))
        return left if left > 0 else None

    def is_kin(self, session_id: str) -> bool:
        """Whether this is an open session of this process and this owner."""
        session = _open_sessions.get(session_id)
        return session is not None and session.owner == self.owner


def _disown_all() -> None:
    for session in list(_open_sessions.values()):
        session.disown()
    _open_sessions.clear()


os.register_at_fork(after_in_child=_disown_all)


class Heartbeat:
    """Calls `beat` on the loop every `interval_ms`, from `start` to `stop`. A failed beat is tried again."""

    def __init__(self, beat: Callable[[], Awaitable[None]], interval_ms: float) -> None:
        self._beat = beat
        self._interval_s = interval_ms / 1000
        self._timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None
        self.was_started = False

    def start(self) -> None:
        """Begin, on the running loop. Idempotent."""
        self.was_started = True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._due)

    def stop(self) -> None:
        """End. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._running.cancel()
        self._timer = self._running = None

    def _due(self) -> None:
        loop = asyncio.get_running_loop()
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._once())
        self._timer = loop.call_later(self._interval_s, self._due)

    async def _once(self) -> None:
        try:
            await self._beat()
        except JournalError:
            return
