"""Opening what cannot be opened: a clear sentence, and nothing lost."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from beam_agents.errors import JournalError, JournalOpenError
from beam_agents.journals import open_journal
from beam_agents.journals.sqlite.schema import SCHEMA_VERSION
from beam_agents.ports import CallIdentity, Intent
from tests.journals.processes import ROOT

CALL = CallIdentity("a" * 64)


async def filled(path: Path) -> None:
    journal = open_journal(f"sqlite:///{path}")
    intent = await journal.begin(CALL)
    assert isinstance(intent, Intent)
    await journal.record_answer(intent, b"kept", None)
    await journal.aclose()


async def kept(path: Path) -> bytes | None:
    journal = open_journal(f"sqlite:///{path}")
    answer = (await journal.find(CALL)).answer
    await journal.aclose()
    return answer and answer.response


def refusal(uri: str) -> str:
    with pytest.raises(JournalOpenError) as caught:
        open_journal(uri)
    return str(caught.value)


def test_a_missing_directory(tmp_path: Path) -> None:
    message = refusal(f"sqlite:///{tmp_path}/nowhere/journal.db")
    assert f"the directory {tmp_path}/nowhere does not exist" in message


def test_a_directory_instead_of_a_file(tmp_path: Path) -> None:
    assert "it is a directory" in refusal(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but dear to somebody\n" * 100)
    assert "not an SQLite database" in refusal(f"sqlite:///{path}")
    assert path.read_text() == "not a database, but dear to somebody\n" * 100


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    assert "database of something else" in refusal(f"sqlite:///{path}")
    assert path.read_bytes() == before


async def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    assert f"schema version {SCHEMA_VERSION + 1}" in refusal(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    assert await kept(path) == b"kept"


async def test_a_locked_journal_opens_once_the_lock_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "another process holds it locked" in refusal(f"sqlite:///{path}?busy_ms=10")
    await filled(path)
    assert await kept(path) == b"kept"


async def test_a_journal_that_is_there_opens_and_is_read_while_another_process_holds_it_locked(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        journal = open_journal(f"sqlite:///{path}?busy_ms=10")
        finding = await journal.find(CALL)
        other.execute("ROLLBACK")
    await journal.aclose()
    assert finding.answer is not None


async def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    damaged = bytearray(path.read_bytes())
    damaged[4096:] = os.urandom(len(damaged) - 4096)
    path.write_bytes(damaged)
    assert "the file is damaged" in refusal(f"sqlite:///{path}")
    assert path.read_bytes() == damaged


AS_NOBODY = (
    "import os, sys\n"
    "from beam_agents.errors import JournalOpenError\n"
    "from beam_agents.journals import open_journal\n"
    "os.setgid(65534), os.setuid(65534)\n"
    "try: open_journal(sys.argv[1])\n"
    "except JournalOpenError as error: print(error)\n"
)


@pytest.fixture
def public_path():
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


def test_a_read_only_place(public_path: Path) -> None:
    path = public_path / "journal.db"
    with closing(sqlite3.connect(path)):
        path.touch()
    path.chmod(0o444)
    said = run_script(AS_NOBODY, f"sqlite:///{path}")
    assert "read-only" in said
    assert "writable for this user" in said


def test_a_place_that_this_user_cannot_reach(public_path: Path) -> None:
    public_path.chmod(0o700)
    said = run_script(AS_NOBODY, f"sqlite:///{public_path}/journal.db")
    assert "cannot be reached" in said
    assert "give this user access" in said


def test_a_full_disk_stops_the_write_and_keeps_what_was_there(tmp_path: Path) -> None:
    script = (
        "import asyncio, resource, signal, sys\n"
        "from beam_agents.errors import JournalError\n"
        "from beam_agents.journals import open_journal\n"
        "from beam_agents.ports import CallIdentity\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "async def main():\n"
        "    journal = open_journal(sys.argv[1])\n"
        "    first, second = CallIdentity('1'), CallIdentity('2')\n"
        "    await journal.record_answer(await journal.begin(first), b'kept', None)\n"
        "    intent = await journal.begin(second)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))\n"
        "    try: await journal.record_answer(intent, b'x' * 1_000_000, None)\n"
        "    except JournalError as error: print(error)\n"
        "    assert (await journal.find(first)).answer.response == b'kept'\n"
        "    assert (await journal.find(second)).answer is None\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "    await journal.record_answer(intent, b'x' * 1_000_000, None)\n"
        "    print(len((await journal.find(second)).answer.response))\n"
        "    await journal.aclose()\n"
        "asyncio.run(main())\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    refused, size = run_script(script, f"sqlite:///{tmp_path / 'journal.db'}").splitlines()
    assert "nothing was written" in refused
    assert "disk" in refused
    assert size == "1000000"


async def test_a_journal_grown_to_max_mb_says_so_and_serves_on(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path / 'journal.db'}?max_mb=1")
    big = await journal.begin(CALL)
    assert isinstance(big, Intent)
    with pytest.raises(JournalError, match="prune the journal"):
        await journal.record_answer(big, bytes(2_000_000), None)
    await journal.record_answer(big, b"small", None)
    answer = (await journal.find(CALL)).answer
    assert answer is not None
    assert answer.response == b"small"
    await journal.aclose()


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("journal.db", "no scheme"),
        ("mysql://u:secret@host/db", "no journal is called 'mysql'"),
        ("sqlite://journal.db", "names no file"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///j.db?colour=red", "unknown option 'colour'"),
        ("sqlite:///j.db?lease_s=soon", "lease_s='soon' must be a number"),
        ("sqlite:///j.db?synchronous=off", "must be one of NORMAL, FULL"),
        ("sqlite:///j.db?key_env=NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"),
        ("memory://?lease_s=inf", "must be at most 86400"),
    ],
)
def test_what_is_no_journal_uri(uri: str, said: str) -> None:
    message = refusal(uri)
    assert said in message
    assert "secret" not in message


def run_script(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
