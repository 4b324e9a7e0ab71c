"""A journal on a Redis server that is away, restarted, full of secrets, or cut off in the middle of a reply."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from beam_agents.errors import JournalError, JournalOpenError
from beam_agents.journals import open_journal
from beam_agents.journals.redis.link import RedisLink
from beam_agents.journals.uri import JournalUri
from beam_agents.journals.vault import Vault
from beam_agents.ports import Intent, PastAttempt
from tests.journals.processes import line_of, tell, worker
from tests.journals.servers import CuttingProxy, RedisServer, free_port
from tests.journals.worker import CALL

pytestmark = pytest.mark.services


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    redis_server.client.flushall()
    return redis_server


async def test_a_server_that_is_away_at_first_use() -> None:
    journal = open_journal(f"redis://user:hunter2@127.0.0.1:{free_port()}/0")
    with pytest.raises(JournalOpenError, match="is the server up") as caught:
        await journal.find(CALL)
    assert "hunter2" not in str(caught.value) + repr(journal)
    await journal.aclose()


async def test_a_wrong_password_is_refused_and_not_shown(tmp_path: Path) -> None:
    guarded = RedisServer(tmp_path, password="right")
    guarded.start()
    journal = open_journal(f"redis://:hunter2@127.0.0.1:{guarded.port}/0")
    with pytest.raises(JournalOpenError, match="refuses user or password") as caught:
        await journal.find(CALL)
    assert "hunter2" not in str(caught.value)
    await journal.aclose()
    guarded.stop()


async def test_a_restarted_server_keeps_everything_and_is_found_again(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    journal = open_journal(server.uri)
    intent = await journal.begin(CALL)
    assert isinstance(intent, Intent)
    server.stop()
    with pytest.raises(JournalError, match="did not answer") as caught:
        await journal.record_answer(intent, b"answer", None)
    assert not isinstance(caught.value, JournalOpenError)
    server.start()
    await journal.record_answer(intent, b"answer", None)
    answer = (await journal.find(CALL)).answer
    assert answer is not None
    assert (answer.response, answer.ordinal) == (b"answer", 1)
    await journal.aclose()
    server.stop()


async def test_an_intent_whose_reply_was_lost_does_not_block_its_own_call(server: RedisServer) -> None:
    proxy = CuttingProxy(server.port)
    await proxy.start()
    journal = open_journal(f"redis://127.0.0.1:{proxy.port}/0")
    await journal.find(CALL)
    proxy.cut()
    with pytest.raises(JournalError):
        await journal.begin(CALL)
    assert await journal.begin(CALL) == Intent(CALL, 1)
    await journal.aclose()
    await proxy.stop()


@pytest.mark.parametrize("died", [RuntimeError("the handler is closed"), AttributeError("writelines")])
async def test_what_redis_py_lets_through_of_a_dead_connection_is_a_journal_error(
    server: RedisServer, died: Exception
) -> None:
    async def ask() -> None:
        raise died

    uri = JournalUri.parse(server.uri)
    link = RedisLink(uri, Vault.from_environment("", uri.shown), makes_new=True)
    assert await link.calls_at(CALL) == []
    with pytest.raises(JournalError, match="did not answer"):
        await link._guarded(ask)
    assert await link.calls_at(CALL) == []
    await link.aclose()


async def test_flushed_scripts_are_loaded_again(server: RedisServer) -> None:
    journal = open_journal(server.uri)
    await journal.find(CALL)
    server.client.script_flush()
    assert await journal.begin(CALL) == Intent(CALL, 1)
    await journal.aclose()


async def test_a_killed_owner_is_lost_when_its_lease_ends(server: RedisServer) -> None:
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


async def test_records_expire_with_their_time_to_live(server: RedisServer) -> None:
    journal = open_journal(f"{server.uri}?ttl_h=2")
    await journal.begin(CALL)
    (key,) = server.client.scan_iter("{beam-agents:journal}:call:*")
    assert 0 < server.client.pttl(key) <= 2 * 3_600_000
    await journal.aclose()


async def test_journals_of_different_names_never_meet(server: RedisServer) -> None:
    one, two = open_journal(f"{server.uri}?name=one"), open_journal(f"{server.uri}?name=two")
    await one.begin(CALL)
    assert await two.begin(CALL) == Intent(CALL, 1)
    await one.aclose()
    await two.aclose()


async def test_a_newer_version_is_left_alone(server: RedisServer) -> None:
    server.client.set("{beam-agents:journal}:version", "2")
    journal = open_journal(server.uri)
    with pytest.raises(JournalOpenError, match="journal version 2"):
        await journal.find(CALL)
    await journal.aclose()


async def test_a_server_that_keeps_nothing_is_warned_about(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.client.config_set("appendonly", "no")
    journal = open_journal(server.uri)
    with caplog.at_level(logging.WARNING):
        await journal.find(CALL)
    server.client.config_set("appendonly", "yes")
    assert "set appendonly yes" in caplog.text
    await journal.aclose()


def test_a_journal_stays_on_its_loop(server: RedisServer) -> None:
    journal = open_journal(server.uri)
    with asyncio.Runner() as home, asyncio.Runner() as elsewhere:
        home.run(journal.find(CALL))
        with pytest.raises(JournalError, match="another event loop"):
            elsewhere.run(journal.find(CALL))
        home.run(journal.aclose())
