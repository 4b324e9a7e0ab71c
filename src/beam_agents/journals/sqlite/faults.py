"""What SQLite's error codes mean for a journal, and what to do about them."""

from __future__ import annotations

import sqlite3

from beam_agents.errors import JournalError, JournalOpenError

__all__ = ["at_opening", "at_use", "concerns_all"]

_MEANINGS = {
    sqlite3.SQLITE_BUSY: "another process holds it locked; end that process, or raise busy_ms in the URI",
    sqlite3.SQLITE_LOCKED: "another connection holds it locked; end it, or raise busy_ms in the URI",
    sqlite3.SQLITE_READONLY: "it is read-only; make the file and its directory writable for this user",
    sqlite3.SQLITE_PERM: "access is denied; make the file and its directory writable for this user",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write (it may be full); free space or check the disk",
    sqlite3.SQLITE_CORRUPT: (
        "the file is damaged; keep a copy, save what can be read with `sqlite3 FILE .recover`, and name a new file"
    ),
    sqlite3.SQLITE_FULL: "the disk, or max_mb, is full; free space, prune the journal, or raise max_mb in the URI",
    sqlite3.SQLITE_CANTOPEN: "the file or its -wal and -shm files cannot be opened; check path and permissions",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; it was left as it is, name another path",
}


def at_opening(shown: str, error: sqlite3.Error) -> JournalOpenError:
    """The error for a journal that cannot be opened. Nothing was changed."""
    return JournalOpenError(f"{shown} cannot be opened: {_meaning(error)}")


def at_use(shown: str, error: BaseException) -> JournalError:
    """The error for a read or write that failed. Nothing was written."""
    return JournalError(f"{shown} failed, and nothing was written: {_meaning(error)}")


def concerns_all(error: BaseException) -> bool:
    """Whether the fault lies with the file rather than with one of several writes."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)


def _code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _meaning(error: BaseException) -> str:
    said = f"{type(error).__name__}: {error}"
    meaning = _MEANINGS.get(_code(error) or 0)
    return f"{meaning} ({error})" if meaning else said
