"""The table of journals that the contract suite runs over, and what each needs to be provoked."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from beam_agents.journals import reset_memory_journals
from beam_agents.journals.memory import _shelves
from beam_agents.testing import ManualClock
from tests.journals.servers import PostgresqlServer, RedisServer

LEASE_MS = 30_000


@dataclass(frozen=True)
class Place:
    """One empty journal, and the ways to do it harm."""

    uri: str
    clock: ManualClock
    expire_leases: Callable[[], None]
    damage_answers: Callable[[], None]


def memory_place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    reset_memory_journals()
    clock = ManualClock(1_700_000_000_000)

    def damage() -> None:
        for attempts in _shelves["contract"].calls.values():
            for attempt in attempts:
                if attempt.row.stored is not None:
                    attempt.row = attempt.row._replace(stored=attempt.row.stored[:-1] + b"\x00")

    return Place("memory://contract", clock, lambda: clock.advance(LEASE_MS + 1), damage)


def sqlite_place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    clock = ManualClock(1_700_000_000_000)
    path = tmp_path / "journal.db"

    def damage() -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE attempts SET response = CAST(response || 'x' AS BLOB) WHERE response NOT NULL")

    return Place(f"sqlite:///{path}", clock, lambda: clock.advance(LEASE_MS + 1), damage)


def redis_place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    server: RedisServer = request.getfixturevalue("redis_server")
    server.client.flushall()

    def expire() -> None:
        server.client.delete("{beam-agents:journal}:leases")

    def damage() -> None:
        for key in server.client.scan_iter("{beam-agents:journal}:call:*"):
            for field, value in server.client.hgetall(key).items():
                if field.endswith(b":response"):
                    server.client.hset(key, field, value + b"x")

    return Place(server.uri, ManualClock(), expire, damage)


def postgresql_place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    server.run("DROP SCHEMA IF EXISTS beam_agents CASCADE")

    def expire() -> None:
        server.run("UPDATE beam_agents.sessions SET lease_until_ms = 0")

    def damage() -> None:
        server.run("UPDATE beam_agents.attempts SET response = response || 'x'::bytea WHERE response IS NOT NULL")

    return Place(server.uri, ManualClock(), expire, damage)


PLACES = [
    pytest.param(memory_place, id="memory"),
    pytest.param(sqlite_place, id="sqlite"),
    pytest.param(redis_place, id="redis", marks=pytest.mark.services),
    pytest.param(postgresql_place, id="postgresql", marks=pytest.mark.services),
]
