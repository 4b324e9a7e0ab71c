"""`memory://NAME`: a journal that lives as long as its process and is shared by everything in it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from beam_agents.journals.attempts import INTENT, LOST, AttemptRow, Ending
from beam_agents.journals.ownership import Heartbeat, Session
from beam_agents.journals.record import PruneReport
from beam_agents.journals.stored import Opening, Rows
from beam_agents.journals.uri import JournalUri
from beam_agents.ports import CallIdentity, Intent

__all__ = ["Attempt", "MemoryStore", "Shelf", "existing_shelf", "reset_memory_journals"]

_OPTIONS = ("key_env", "lease_s", "ttl_h")

_CallKey: TypeAlias = tuple[str, str]
_Position: TypeAlias = tuple[str, bytes, int]


@dataclass(slots=True)
class Attempt:
    """One request and what is known of it."""

    call: CallIdentity
    row: AttemptRow
    session_id: str
    owner: str
    began_ms: int
    ended_ms: int | None = None


@dataclass(slots=True)
class Shelf:
    """Everything that one named journal holds, guarded by `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    calls: dict[_CallKey, list[Attempt]] = field(default_factory=dict)
    positions: dict[_Position, dict[_CallKey, None]] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)

    def prune(self, before_ms: int, now_ms: int) -> PruneReport:
        """Delete the calls unchanged since `before_ms`, but none that a live owner waits for."""

        def is_stale(attempts: list[Attempt]) -> bool:
            return not any(
                (each.ended_ms or each.began_ms) >= before_ms
                or (each.row.state == INTENT and self.leases.get(each.session_id, 0) > now_ms)
                for each in attempts
            )

        return self.drop(is_stale)

    def drop(self, is_doomed: Callable[[list[Attempt]], bool]) -> PruneReport:
        """Delete whole calls."""
        with self.lock:
            doomed = [key for key, attempts in self.calls.items() if is_doomed(attempts)]
            return PruneReport(len(doomed), sum(len(self._remove(key)) for key in doomed))

    def add(self, attempt: Attempt) -> list[Attempt]:
        """Take in an attempt; gives those of its call, by ordinal."""
        key = _key(attempt.call)
        attempts = self.calls.setdefault(key, [])
        attempts.append(attempt)
        attempts.sort(key=lambda each: each.row.ordinal)
        self.positions.setdefault(_position(attempt.call), {})[key] = None
        return attempts

    def at(self, call: CallIdentity) -> list[CallIdentity]:
        """The calls at the position of `call`, oldest first."""
        return [self.calls[key][-1].call for key in self.positions.get(_position(call), ())]

    def _remove(self, key: _CallKey) -> list[Attempt]:
        attempts = self.calls.pop(key)
        position = _position(attempts[0].call)
        there = self.positions[position]
        del there[key]
        if not there:
            del self.positions[position]
        return attempts


_shelves: dict[str, Shelf] = {}
_shelves_lock = threading.Lock()


def reset_memory_journals() -> None:
    """Forget every `memory://` journal of this process; for tests."""
    _shelves.clear()


os.register_at_fork(after_in_child=reset_memory_journals)


def _shelf(uri: JournalUri) -> Shelf:
    with _shelves_lock:
        return _shelves.setdefault(uri.location, Shelf())


def existing_shelf(uri: JournalUri) -> Shelf | None:
    """What the journal of this name holds, if this process has opened one."""
    return _shelves.get(uri.location)


class MemoryStore:
    """An `AttemptStore` in this process, safe for several threads and event loops."""

    def __init__(self, opening: Opening) -> None:
        uri = opening.uri
        uri.check_options(_OPTIONS)
        self.shown = uri.shown
        self._terms = uri.terms()
        self._session = Session(opening.owner, self._terms)
        self._shelf = _shelf(uri)
        self._now_ms = opening.now_ms
        self._heartbeat = Heartbeat(self._beat, self._terms.heartbeat_ms)
        self._pruned_ms = opening.now_ms()

    async def read(self, call: CallIdentity) -> Rows:
        """See `AttemptStore.read`."""
        self._session.check()
        with self._shelf.lock:
            return self._rows(call)

    async def at_position(self, call: CallIdentity) -> list[CallIdentity]:
        """See `AttemptStore.at_position`."""
        self._session.check()
        with self._shelf.lock:
            return self._shelf.at(call)

    async def grant(self, call: CallIdentity) -> int | Rows:
        """See `AttemptStore.grant`."""
        self._session.check()
        self._heartbeat.start()
        self._may_prune()
        with self._shelf.lock:
            rows = self._rows(call)
            if any(row.stored is not None or row.lease_left_ms is not None for row in rows):
                return rows
            return self._insert(call)

    async def finish(self, intent: Intent, ending: Ending) -> bool:
        """See `AttemptStore.finish`."""
        self._session.check()
        with self._shelf.lock:
            attempts = self._shelf.calls.get(_key(intent.call), [])
            attempt = next((a for a in attempts if a.row.ordinal == intent.ordinal), None)
            if attempt is None:
                attempt = self._attempt(intent.call, intent.ordinal)
                attempts = self._shelf.add(attempt)
            if _may_end(attempt.row, ending):
                stands = all(a.row.stored is None for a in attempts)
                attempt.row = AttemptRow(intent.ordinal, *(ending if stands else ending._replace(stored=None)))
                attempt.ended_ms = self._now_ms()
            return attempt.row.stored is not None

    async def condemn(self, call: CallIdentity, ordinal: int, digest: bytes | None, error_type: str) -> None:
        """See `AttemptStore.condemn`."""
        self._session.check()
        with self._shelf.lock:
            for attempt in self._shelf.calls.get(_key(call), ()):
                if attempt.row.ordinal == ordinal and attempt.row.digest == digest:
                    attempt.row = attempt.row._replace(stored=None, error_type=error_type)

    async def aclose(self) -> None:
        """Give up the lease. What was recorded stays for the next one to open the same name."""
        self._heartbeat.stop()
        self._session.close()
        with self._shelf.lock:
            self._shelf.leases.pop(self._session.id, None)

    def _rows(self, call: CallIdentity) -> Rows:
        now = self._now_ms()
        return tuple(self._leased(attempt, now) for attempt in self._shelf.calls.get(_key(call), ()))

    def _leased(self, attempt: Attempt, now: int) -> AttemptRow:
        if attempt.row.state != INTENT:
            return attempt.row
        left = self._session.left_ms(attempt.session_id, self._shelf.leases.get(attempt.session_id), now)
        return attempt.row._replace(lease_left_ms=left)

    def _insert(self, call: CallIdentity) -> int:
        attempts = self._shelf.calls.get(_key(call), [])
        for attempt in attempts:
            if attempt.row.state == INTENT:
                attempt.row = attempt.row._replace(state="in_doubt", error_type=LOST)
                attempt.ended_ms = self._now_ms()
        ordinal = attempts[-1].row.ordinal + 1 if attempts else 1
        self._shelf.add(self._attempt(call, ordinal))
        self._extend_lease()
        return ordinal

    def _attempt(self, call: CallIdentity, ordinal: int) -> Attempt:
        row = AttemptRow(ordinal, INTENT)
        return Attempt(call, row, self._session.id, self._session.owner, self._now_ms())

    async def _beat(self) -> None:
        with self._shelf.lock:
            self._extend_lease()

    def _extend_lease(self) -> None:
        self._shelf.leases[self._session.id] = self._now_ms() + self._terms.lease_ms

    def _may_prune(self) -> None:
        now = self._now_ms()
        if self._terms.ttl_ms is not None and not 0 <= now - self._pruned_ms < self._terms.ttl_ms // 8:
            self._pruned_ms = now
            self._shelf.prune(now - self._terms.ttl_ms, now)


def _position(call: CallIdentity) -> _Position:
    return call.scope, call.entity_key, call.seq


def _key(call: CallIdentity) -> _CallKey:
    return call.scope, call.call_id


def _may_end(row: AttemptRow, ending: Ending) -> bool:
    if row.state == INTENT or row.error_type == LOST:
        return True
    return ending.state == "answered" and row.state != "answered"
