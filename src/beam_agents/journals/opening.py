"""`open_journal`: from a URI to the backend that its scheme names."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from beam_agents.errors import JournalOpenError
from beam_agents.journals.clock import real_now_ms
from beam_agents.journals.memory import MemoryStore
from beam_agents.journals.memory_reader import MemoryReader
from beam_agents.journals.record import JournalReader
from beam_agents.journals.sqlite import SqliteReader, SqliteStore
from beam_agents.journals.stored import AttemptStore, Opening, StoredJournal
from beam_agents.journals.uri import JournalUri
from beam_agents.journals.vault import Vault
from beam_agents.ports import Clock

__all__ = ["open_journal", "open_reader", "require_known"]


class _Backend(NamedTuple):
    store: Callable[[Opening], AttemptStore]
    reader: Callable[[Opening], JournalReader]


def _redis() -> _Backend:
    from beam_agents.journals.redis import RedisReader, RedisStore

    return _Backend(RedisStore, RedisReader)


def _postgresql() -> _Backend:
    from beam_agents.journals.postgresql import PostgresqlReader, PostgresqlStore

    return _Backend(PostgresqlStore, PostgresqlReader)


_BACKENDS: dict[str, Callable[[], _Backend]] = {
    "memory": lambda: _Backend(MemoryStore, MemoryReader),
    "postgres": _postgresql,
    "postgresql": _postgresql,
    "redis": _redis,
    "rediss": _redis,
    "sqlite": lambda: _Backend(SqliteStore, SqliteReader),
}


def open_journal(uri: str, *, now_ms: Clock | None = None, owner: str | None = None) -> StoredJournal:
    """Open the journal that `uri` names: `memory://`, `sqlite:///path`, `redis://…` or `postgresql://…`.

    Cheap and synchronous. A file is opened at once; a server is first spoken to when the journal is first used.
    `now_ms` is the clock (default: this machine's); journals on a server take leases by the server's clock.
    `owner` names who asks, in the records (default: host and process id).

    Raises:
        JournalOpenError: when it cannot be opened; the message says why and what to do.
    """
    backend, opening = _named(uri, now_ms, owner)
    return StoredJournal(backend.store(opening), opening.vault, lambda: backend.reader(opening))


def open_reader(uri: str, *, now_ms: Clock | None = None) -> JournalReader:
    """Open the journal that is at `uri` for its keeper: to look at its records, and to delete some.

    Raises:
        JournalOpenError: when it is not there or cannot be opened. A server is first spoken to at first use.
    """
    backend, opening = _named(uri, now_ms, None)
    return backend.reader(opening)


def require_known(uri: str) -> JournalUri:
    """Read `uri`, which names one of our journals. Opens nothing.

    Raises:
        JournalOpenError: for what is no such URI.
    """
    parsed = JournalUri.parse(uri)
    if parsed.scheme not in _BACKENDS:
        raise JournalOpenError(
            f"{parsed.shown}: no journal is called {parsed.scheme!r}; there are {', '.join(sorted(_BACKENDS))}"
        )
    return parsed


def _named(uri: str, now_ms: Clock | None, owner: str | None) -> tuple[_Backend, Opening]:
    parsed = require_known(uri)
    vault = Vault.from_environment(parsed.options.get("key_env", ""), parsed.shown)
    return _BACKENDS[parsed.scheme](), Opening(parsed, owner, now_ms or real_now_ms, vault)
