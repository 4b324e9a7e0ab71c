"""Group commit: together when all is well, one by one when one write is at fault, never half."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from beam_agents.errors import JournalError
from beam_agents.journals.sqlite.writer import GroupCommitWriter


class NoUpkeep:
    """Nothing to do between batches."""

    def is_due(self) -> bool:
        return False

    def write(self, connection: sqlite3.Connection) -> None: ...

    def done(self) -> None: ...

    def farewell(self, connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (-1)")


def insert(number: int):
    def write(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        if number == 13:
            raise OverflowError("thirteen")
        return number * 2

    return write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x)")
    return path


@pytest.fixture
def writer(path: Path) -> Iterator[GroupCommitWriter]:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout=20")
    writer = GroupCommitWriter(connection, "the journal", NoUpkeep(), idle_s=60)
    yield writer
    writer.stop()
    assert writer.stopped.wait(10)


def kept(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT x FROM t ORDER BY rowid")]


async def test_each_gets_its_own_result_once_it_is_durable(writer: GroupCommitWriter, path: Path) -> None:
    assert await asyncio.gather(*(writer.submit(insert(n)) for n in range(10))) == [n * 2 for n in range(10)]
    assert kept(path) == list(range(10))


async def test_a_write_at_fault_fails_alone_and_leaves_nothing(writer: GroupCommitWriter, path: Path) -> None:
    results = await asyncio.gather(*(writer.submit(insert(n)) for n in (12, 13, 14)), return_exceptions=True)
    assert (results[0], results[2]) == (24, 28)
    assert isinstance(results[1], JournalError)
    assert "thirteen" in str(results[1])
    assert kept(path) == [12, 14]


async def test_a_locked_file_fails_all_and_leaves_nothing(writer: GroupCommitWriter, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        results = await asyncio.gather(*(writer.submit(insert(n)) for n in range(3)), return_exceptions=True)
    assert all(isinstance(result, JournalError) and "locked" in str(result) for result in results)
    assert kept(path) == []
    assert await writer.submit(insert(5)) == 10


async def test_a_result_that_nobody_waits_for_is_undone(writer: GroupCommitWriter, path: Path) -> None:
    def undo(value: int):
        return lambda connection: connection.execute("DELETE FROM t WHERE x * 2 = ?", (value,))

    unwanted = asyncio.ensure_future(writer.obtain(insert(1), undo))
    wanted = asyncio.ensure_future(writer.obtain(insert(2), undo))
    await asyncio.sleep(0)
    unwanted.cancel()
    assert await wanted == 4
    await writer.submit(insert(3))
    assert kept(path) == [2, 3]


async def test_a_result_on_its_way_to_a_cancelled_caller_is_undone(writer: GroupCommitWriter, path: Path) -> None:
    def undo(value: int):
        return lambda connection: connection.execute("DELETE FROM t WHERE x * 2 = ?", (value,))

    async def cancel_what_was_written_with_it() -> None:
        await writer.submit(insert(1))
        unwanted.cancel()

    cancelling = asyncio.ensure_future(cancel_what_was_written_with_it())
    unwanted = asyncio.ensure_future(writer.obtain(insert(2), undo))
    await asyncio.wait((cancelling, unwanted))
    assert unwanted.cancelled()
    await writer.submit(insert(3))
    assert kept(path) == [1, 3]


async def test_stopping_writes_what_is_queued_and_says_farewell(writer: GroupCommitWriter, path: Path) -> None:
    futures = [writer.submit(insert(n)) for n in range(3)]
    writer.stop()
    assert await asyncio.gather(*futures) == [0, 2, 4]
    assert await asyncio.to_thread(writer.stopped.wait, 10)
    assert kept(path) == [0, 1, 2, -1]
    with pytest.raises(JournalError, match="closed"):
        writer.submit(insert(4))


def test_several_loops_share_one_writer(writer: GroupCommitWriter, path: Path) -> None:
    with asyncio.Runner() as one, asyncio.Runner() as two:
        assert one.run(as_coroutine(writer, 1)) == 2
        assert two.run(as_coroutine(writer, 2)) == 4
    assert kept(path) == [1, 2]


async def as_coroutine(writer: GroupCommitWriter, number: int) -> int:
    return await writer.submit(insert(number))
