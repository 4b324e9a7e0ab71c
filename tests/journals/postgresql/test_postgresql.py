"""A journal in PostgreSQL: a server that is away or restarted, replies that are lost, statements that fail alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from beam_agents.errors import JournalError, JournalOpenError
from beam_agents.journals import open_journal
from beam_agents.ports import CallIdentity, Intent, JournalFinding, PastAttempt
from tests.journals.processes import line_of, tell, worker
from tests.journals.servers import CuttingProxy, PostgresqlServer, free_port
from tests.journals.worker import CALL

pytestmark = pytest.mark.services


@pytest.fixture
def server(postgresql_server: PostgresqlServer) -> Iterator[PostgresqlServer]:
    postgresql_server.run("DROP SCHEMA IF EXISTS beam_agents CASCADE")
    return postgresql_server


async def test_a_server_that_is_away_at_first_use() -> None:
    journal = open_journal(f"postgresql://user:hunter2@127.0.0.1:{free_port()}/db")
    with pytest.raises(JournalOpenError, match="is the server up") as caught:
        await journal.find(CALL)
    assert "hunter2" not in str(caught.value) + repr(journal)
    await journal.aclose()


async def test_a_wrong_password_is_refused_and_not_shown(server: PostgresqlServer) -> None:
    journal = open_journal(server.uri.replace("hunter2", "hunter3"))
    with pytest.raises(JournalOpenError, match="password authentication failed") as caught:
        await journal.find(CALL)
    assert "hunter3" not in str(caught.value)
    await journal.aclose()


async def test_a_restarted_server_keeps_everything_and_is_found_again(server: PostgresqlServer) -> None:
    journal = open_journal(server.uri)
    intent = await journal.begin(CALL)
    assert isinstance(intent, Intent)
    await asyncio.to_thread(server.stop)
    with pytest.raises(JournalError) as caught:
        await journal.record_answer(intent, b"answer", None)
    assert not isinstance(caught.value, JournalOpenError)
    await asyncio.to_thread(server.start)
    await journal.record_answer(intent, b"answer", None)
    answer = (await journal.find(CALL)).answer
    assert answer is not None
    assert (answer.response, answer.ordinal) == (b"answer", 1)
    await journal.aclose()


async def test_an_intent_whose_reply_was_lost_does_not_block_its_own_call(server: PostgresqlServer) -> None:
    proxy = CuttingProxy(server.port)
    await proxy.start()
    journal = open_journal(server.uri.replace(str(server.port), str(proxy.port)))
    await journal.begin(CallIdentity("other"))
    proxy.cut()
    with pytest.raises(JournalError):
        await journal.begin(CALL)
    assert await journal.begin(CALL) == Intent(CALL, 1)
    await journal.aclose()
    await proxy.stop()


async def test_a_write_that_the_server_refuses_fails_alone(server: PostgresqlServer) -> None:
    journal = open_journal(server.uri)
    await journal.begin(CallIdentity("first"))
    calls = [CallIdentity("good"), CallIdentity("bad\x00"), CallIdentity("fine")]
    good, bad, fine = await asyncio.gather(*(journal.begin(call) for call in calls), return_exceptions=True)
    assert (good, fine) == (Intent(calls[0], 1), Intent(calls[2], 1))
    assert isinstance(bad, JournalError)
    await journal.aclose()


async def test_a_killed_owner_is_lost_when_its_lease_ends(server: PostgresqlServer) -> None:
    journal = open_journal(server.uri)
    with worker("begin", f"{server.uri}?lease_s=1") as process:
        line_of(process)
        tell(process)
        assert line_of(process) == "granted"
        assert (await journal.find(CALL)).busy_for_ms is not None
    for _ in range(300):
        finding = await journal.find(CALL)
        if finding.busy_for_ms is None:
            break
        await asyncio.sleep(0.01)
    assert finding.past == (PastAttempt(1, "in_doubt", "Lost"),)
    await journal.aclose()


async def test_calls_older_than_their_time_to_live_are_pruned(server: PostgresqlServer) -> None:
    old = open_journal(server.uri)
    for call_id in ("old", "revived"):
        intent = await old.begin(CallIdentity(call_id))
        assert isinstance(intent, Intent)
        await old.record_failure(intent, "failed", "ServerError", 500)
    server.run("UPDATE beam_agents.attempts SET began_ms = 0, ended_ms = 0")
    await old.begin(CallIdentity("revived"))
    new = open_journal(server.uri)
    await new.begin(CALL)
    assert await new.find(CallIdentity("old")) == JournalFinding()
    assert (await new.find(CallIdentity("revived"))).past == (PastAttempt(1, "failed", "ServerError", 500),)
    await old.aclose()
    await new.aclose()


async def test_a_newer_schema_is_left_alone(server: PostgresqlServer) -> None:
    journal = open_journal(server.uri)
    await journal.find(CALL)
    await journal.aclose()
    server.run("UPDATE beam_agents.meta SET value = '2' WHERE name = 'version'")
    journal = open_journal(server.uri)
    with pytest.raises(JournalOpenError, match="schema version 2"):
        await journal.find(CALL)
    await journal.aclose()


async def test_schemas_never_meet(server: PostgresqlServer) -> None:
    one, two = open_journal(server.uri), open_journal(f"{server.uri}?schema=other_journal")
    await one.begin(CALL)
    assert await two.begin(CALL) == Intent(CALL, 1)
    await one.aclose()
    await two.aclose()
    server.run("DROP SCHEMA other_journal CASCADE")


def test_a_schema_name_cannot_smuggle_sql() -> None:
    with pytest.raises(JournalOpenError, match="plain lower-case name"):
        open_journal("postgresql://127.0.0.1/db?schema=a;drop")
