"""Notices one key in two open bundles of a process: the later commit would silently undo the earlier."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable
from typing import Any

__all__ = ["ClaimLostError", "Claims", "claims"]


class ClaimLostError(RuntimeError):
    """Another bundle took over a key of this one before this one was committed."""

    def __init__(self, key: bytes) -> None:
        super().__init__(
            f"key {key!r} is in two open bundles at once, and one would undo the other's state: the runner split a "
            "stateful bundle, or retried one that it had not ended; on Prism, run with "
            "--experiments=prism_disable_sdf_split"
        )
        self.key = key

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key,)


class Claims:
    """Which open bundle each key belongs to; the latest to read a key's state has it. Thread-safe.

    Bundles are held weakly: one that its runner gave up does not block its key for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[Hashable, weakref.ref[Any]] = {}

    def take(self, name: Hashable, bundle: object) -> None:
        """`bundle` is about to read the state of `name`."""
        with self._lock:
            self._holders[name] = weakref.ref(bundle)

    def holds(self, name: Hashable, bundle: object) -> bool:
        """Whether no other bundle took `name` since."""
        with self._lock:
            holder = self._holders.get(name)
            return holder is not None and holder() is bundle

    def give_back(self, name: Hashable, bundle: object) -> None:
        """`bundle` is about to be committed, or was given up."""
        with self._lock:
            holder = self._holders.get(name)
            if holder is not None and holder() in (bundle, None):
                del self._holders[name]


claims = Claims()
"""The claims of this process."""


def _forget() -> None:
    claims.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
