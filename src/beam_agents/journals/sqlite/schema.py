"""The tables of a journal file, and opening one without harm to what is there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from beam_agents.errors import JournalOpenError
from beam_agents.journals.sqlite.faults import at_opening
from beam_agents.journals.uri import JournalUri

__all__ = ["SCHEMA_VERSION", "SqliteFile", "transaction"]

SCHEMA_VERSION = 1
_PATIENCE = 100
_APPLICATION_ID = 0x42414A4C
_CHECKED_WHOLE_BYTES = 8 * 1024 * 1024

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, lease_until_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    call_id TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    state TEXT NOT NULL,
    session TEXT NOT NULL,
    owner TEXT NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    kind TEXT NOT NULL,
    model_id TEXT NOT NULL,
    entity_key BLOB NOT NULL,
    seq INTEGER NOT NULL,
    step_index INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    error_type TEXT NOT NULL DEFAULT '',
    status INTEGER,
    usage TEXT NOT NULL DEFAULT '',
    key_id TEXT NOT NULL DEFAULT '',
    digest BLOB,
    response BLOB
);
CREATE UNIQUE INDEX attempts_by_call ON attempts (scope, call_id, ordinal);
CREATE INDEX attempts_by_position ON attempts (entity_key, seq);
"""


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """Where a journal file is and how it is opened.

    Attributes:
        path: absolute path of the database.
        shown: the URI for messages.
        synchronous: `NORMAL` survives a killed process, `FULL` also a power cut.
        busy_ms: how long to wait for another process's lock.
        max_bytes: size that the database may not outgrow, or `None`.
    """

    path: Path
    shown: str
    synchronous: str
    busy_ms: int
    max_bytes: int | None

    @classmethod
    def of(cls, uri: JournalUri) -> SqliteFile:
        """The file that a URI names: `sqlite:///relative/path` or `sqlite:////absolute/path`."""
        location = uri.location
        if not location.startswith("/") or location in ("/", "/:memory:") or "\0" in location:
            raise JournalOpenError(
                f"{uri.shown} names no file; write sqlite:///relative/path.db or sqlite:////absolute/path.db "
                "(a journal in memory is memory://)"
            )
        max_mb = uri.number("max_mb", float("inf"), least=1)
        return cls(
            path=Path(location[1:]).resolve(),
            shown=uri.shown,
            synchronous=uri.choice("synchronous", "NORMAL", ("NORMAL", "FULL")),
            busy_ms=int(min(uri.number("busy_ms", 10_000, least=0), 2**31 - 1)),
            max_bytes=None if max_mb == float("inf") else int(max_mb * 1024 * 1024),
        )

    def prepare(self) -> sqlite3.Connection:
        """Open for writing, made if it is not there. Raises `JournalOpenError`; what is there stays as it is."""
        self._check_place()
        with self._opening("rwc") as connection:
            self._check_contents(connection)
            self._configure(connection)
            _create(connection)
        return connection

    def reader(self, *, check: bool) -> sqlite3.Connection:
        """A connection for reading only. What is there is checked first, unless `prepare` has done so."""
        with self._opening("ro") as connection:
            if check:
                self._check_contents(connection)
        return connection

    @contextmanager
    def altered(self) -> Iterator[sqlite3.Connection]:
        """A connection for deleting; at the end, freed pages go back to the file system."""
        with closing(self.prepare()) as connection:
            yield connection
            connection.executescript("PRAGMA incremental_vacuum")  # execute() would free one page only
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def size_bytes(self) -> int:
        """Bytes of the database and its write-ahead log."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return sum(path.stat().st_size for path in (self.path, log) if path.exists())

    @contextmanager
    def _opening(self, mode: str) -> Iterator[sqlite3.Connection]:
        """A connection, closed again where the block fails. Raises `JournalOpenError` for what SQLite says."""
        try:
            connection = self._connect(mode)
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise at_opening(self.shown, error) from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
        )
        connection.execute(f"PRAGMA busy_timeout={self.busy_ms}")
        return connection

    def _check_place(self) -> None:
        directory = self.path.parent
        try:
            is_there, is_directory = directory.is_dir(), self.path.is_dir()
        except OSError as error:
            raise JournalOpenError(
                f"{self.shown} cannot be opened: {directory} cannot be reached ({error.strerror}); "
                "give this user access to it or name another path"
            ) from error
        if not is_there:
            raise JournalOpenError(
                f"{self.shown} cannot be opened: the directory {directory} does not exist; create it "
                "(sqlite:///a/b.db is a relative path, sqlite:////a/b.db an absolute one)"
            )
        if is_directory:
            raise JournalOpenError(f"{self.shown} cannot be opened: it is a directory; name a file in it")

    def _check_contents(self, connection: sqlite3.Connection) -> None:
        application_id, version, is_empty = _identify(connection)
        if is_empty and not version:
            return
        if application_id != _APPLICATION_ID:
            raise JournalOpenError(
                f"{self.shown} cannot be opened: the file is a database of something else; "
                "it was left as it is, name another path"
            )
        if version > SCHEMA_VERSION:
            raise JournalOpenError(
                f"{self.shown} cannot be opened: it has schema version {version}, this beam-agents knows up to "
                f"{SCHEMA_VERSION}; it was left as it is, use the newer beam-agents or name another path"
            )
        self._check_pages(connection)

    def _check_pages(self, connection: sqlite3.Connection) -> None:
        connection.execute("SELECT 1 FROM attempts LIMIT 1").fetchone()
        if self.path.stat().st_size > _CHECKED_WHOLE_BYTES:
            return
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            damage = sqlite3.DatabaseError(verdict.splitlines()[-1])
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage

    def _configure(self, connection: sqlite3.Connection) -> None:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":  # what is there already opens also while another process holds it locked
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            mode = _write_ahead(connection)
        if mode != "wal":
            raise JournalOpenError(
                f"{self.shown} cannot be opened: this file system does not allow write-ahead logging; use a local disk"
            )
        connection.execute(f"PRAGMA synchronous={self.synchronous}")
        if self.max_bytes is not None:
            page_size = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={self.max_bytes // page_size}")


def _identify(connection: sqlite3.Connection) -> tuple[int, int, bool]:
    """Application id, schema version and whether nothing is there: read at one moment, as others may be creating."""
    with transaction(connection, "DEFERRED"):
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        is_empty = connection.execute("SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)").fetchone()[0]
    return application_id, version, bool(is_empty)


def _write_ahead(connection: sqlite3.Connection) -> str:
    """Switch to write-ahead logging. SQLite does not wait for others there, but it does in an empty transaction."""
    for _ in range(_PATIENCE):
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        with transaction(connection, "EXCLUSIVE"):
            pass
    return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])


def _create(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0]:
        return
    with transaction(connection):
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            for statement in _TABLES.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All or nothing of what is written within."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
