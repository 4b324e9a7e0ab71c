"""A locked file per session beside the database: the kernel frees the lock the moment its process dies.

So another process on the host learns of a death at once, and a reused process id cannot deceive it. Where such
locks do not exist, only the lease tells.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["OwnerLock", "owner_is_dead", "sweep"]

_held: weakref.WeakSet[OwnerLock] = weakref.WeakSet()


class OwnerLock:
    """Held from construction until `release`, or until the process ends."""

    def __init__(self, database: Path, session_id: str) -> None:
        self._path = _lock_path(database, session_id)
        self._descriptor: int | None = _locked_file(self._path)
        _held.add(self)

    def release(self) -> None:
        """Remove the file and free the lock. Idempotent."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            self.forsake()

    def forsake(self) -> None:
        """Close the file only; in a forked child this leaves the parent's lock as it is."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def owner_is_dead(database: Path, session_id: str) -> bool:
    """Whether the session's process is known to have ended. `False` when locks cannot tell."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(_lock_path(database, session_id), os.O_RDONLY)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def sweep(database: Path) -> None:
    """Remove the files that dead sessions left behind."""
    prefix = _lock_path(database, "").name
    for path in database.parent.glob(f"{_escaped(prefix)}*"):
        session_id = path.name.removeprefix(prefix)
        if "." not in session_id and owner_is_dead(database, session_id):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _lock_path(database: Path, session_id: str) -> Path:
    return database.with_name(f"{database.name}-owner-{session_id}")


def _locked_file(path: Path) -> int | None:
    if fcntl is None:
        return None
    unborn = path.with_name(f"{path.name}.new")
    descriptor = os.open(unborn, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unborn.rename(path)
    return descriptor


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _forsake_all() -> None:
    for lock in list(_held):
        lock.forsake()


os.register_at_fork(after_in_child=_forsake_all)
