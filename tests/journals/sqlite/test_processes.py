"""Several processes of one host at one file, and what is left when one of them dies."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from beam_agents.errors import JournalError
from beam_agents.journals import open_journal
from beam_agents.ports import Intent, PastAttempt
from tests.journals.processes import line_of, tell, worker
from tests.journals.worker import CALL, burst_call


def lock_files(directory: Path) -> list[Path]:
    return list(directory.glob("*-owner-*"))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'journal.db'}"


def test_of_several_processes_exactly_one_is_granted(uri: str) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(worker("begin", uri)) for _ in range(4)]
        assert [line_of(process) for process in processes] == ["ready"] * 4
        for process in processes:
            tell(process)
        assert sorted(line_of(process) for process in processes) == ["busy", "busy", "busy", "granted"]


async def test_a_killed_owner_is_noticed_at_once(uri: str) -> None:
    journal = open_journal(uri)
    with worker("begin", uri) as process:
        line_of(process)
        tell(process)
        assert line_of(process) == "granted"
        assert (await journal.find(CALL)).busy_for_ms is not None
    assert (await journal.find(CALL)).past == (PastAttempt(1, "in_doubt", "Lost"),)
    assert await journal.begin(CALL) == Intent(CALL, 2)
    await journal.aclose()


async def test_what_a_killed_owner_leaves_is_swept_at_the_next_opening(uri: str, tmp_path: Path) -> None:
    with worker("begin", uri) as process:
        line_of(process)
        tell(process)
        line_of(process)
        assert len(lock_files(tmp_path)) == 1
    await open_journal(uri).aclose()
    assert lock_files(tmp_path) == []


async def test_a_clean_exit_without_close_leaves_no_lock_and_no_doubt_about_its_death(uri: str, tmp_path: Path) -> None:
    with worker("abandon", uri) as process:
        assert process.wait(timeout=30) == 0
    assert lock_files(tmp_path) == []
    journal = open_journal(uri)
    assert (await journal.find(CALL)).past == (PastAttempt(1, "in_doubt", "Lost"),)
    await journal.aclose()


async def test_every_answer_said_to_be_durable_survives_a_kill(uri: str) -> None:
    with worker("burst", uri) as process:
        said = [int(line_of(process)) for _ in range(300)]
        process.kill()
        rest = process.communicate(timeout=30)[0].splitlines()
    said += [int(line) for line in rest[:-1]]
    journal = open_journal(uri)
    for number in said:
        found = (await journal.find(burst_call(number))).answer
        assert found is not None
        assert found.response == b"answer %d" % number
    await journal.aclose()


async def test_a_torn_last_write_is_repaired(uri: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with worker("burst", uri) as process:
        for _ in range(200):
            line_of(process)
    wal = path.with_name("journal.db-wal")
    os.truncate(wal, wal.stat().st_size - 1000)
    journal = open_journal(uri)
    first = (await journal.find(burst_call(0))).answer
    assert first is not None
    assert first.response == b"answer 0"
    await journal.aclose()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_forked_child_may_not_use_its_parents_journal(uri: str) -> None:
    journal = open_journal(uri)
    await journal.begin(CALL)
    said = said_by_child(lambda: journal._store.read(CALL).send(None))  # type: ignore[attr-defined]
    assert "forked process must open its own" in said
    assert (await journal.find(CALL)).busy_for_ms is not None
    await journal.aclose()


def said_by_child(use: Callable[[], object]) -> str:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            use()
        except JournalError as error:
            os.write(write_end, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        return pipe.read()
