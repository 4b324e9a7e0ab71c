"""Opens journals for the contract suite and closes them again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from beam_agents.journals import open_journal
from beam_agents.journals.stored import StoredJournal
from tests.journals.backends import PLACES, Place
from tests.journals.servers import PostgresqlServer, RedisServer

Open = Callable[..., StoredJournal]


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return request.param(tmp_path, request)


@pytest.fixture
async def opened(place: Place) -> AsyncIterator[Open]:
    """Opens the journal at `place`, under a name of its own when `owner` is given."""
    journals: list[StoredJournal] = []

    def open_one(owner: str | None = None) -> StoredJournal:
        journals.append(open_journal(place.uri, now_ms=place.clock, owner=owner))
        return journals[-1]

    yield open_one
    for journal in journals:
        await journal.aclose()
