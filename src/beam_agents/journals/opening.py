"""`open_journal`: from a URI to the backend that its scheme names."""

from __future__ import annotations

from collections.abc import Callable

from beam_agents.errors import JournalOpenError
from beam_agents.journals.clock import real_now_ms
from beam_agents.journals.memory import MemoryStore
from beam_agents.journals.sqlite import SqliteStore
from beam_agents.journals.stored import AttemptStore, Opening, StoredJournal
from beam_agents.journals.uri import JournalUri
from beam_agents.journals.vault import Vault
from beam_agents.ports import Clock

__all__ = ["open_journal"]


def _redis(opening: Opening) -> AttemptStore:
    from beam_agents.journals.redis import RedisStore

    return RedisStore(opening)


def _postgresql(opening: Opening) -> AttemptStore:
    from beam_agents.journals.postgresql import PostgresqlStore

    return PostgresqlStore(opening)


_STORES: dict[str, Callable[[Opening], AttemptStore]] = {
    "memory": MemoryStore,
    "postgres": _postgresql,
    "postgresql": _postgresql,
    "redis": _redis,
    "rediss": _redis,
    "sqlite": SqliteStore,
}


def open_journal(uri: str, *, now_ms: Clock | None = None, owner: str | None = None) -> StoredJournal:
    """Open the journal that `uri` names: `memory://`, `sqlite:///path`, `redis://…` or `postgresql://…`.

    Cheap and synchronous. A file is opened at once; a server is first spoken to when the journal is first used.
    `now_ms` is the clock (default: this machine's); journals on a server take leases by the server's clock.
    `owner` names who asks, in the records (default: host and process id).

    Raises:
        JournalOpenError: when it cannot be opened; the message says why and what to do.
    """
    parsed = JournalUri.parse(uri)
    opener = _STORES.get(parsed.scheme)
    if opener is None:
        raise JournalOpenError(
            f"{parsed.shown}: no journal is called {parsed.scheme!r}; there are {', '.join(sorted(_STORES))}"
        )
    vault = vault_of(parsed)
    return StoredJournal(opener(Opening(parsed, owner, now_ms or real_now_ms, vault)), vault)


def vault_of(uri: JournalUri) -> Vault:
    """The vault for the keys that a URI names."""
    return Vault.from_environment(uri.options.get("key_env", ""), uri.shown)
