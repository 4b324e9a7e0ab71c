"""The one place where journals read the real clock: when no clock is injected."""

from __future__ import annotations

import time

__all__ = ["real_now_ms"]


def real_now_ms() -> int:
    """Milliseconds since the epoch, by this machine's clock."""
    return int(time.time() * 1000)  # noqa: TID251 - the default of open_journal(now_ms=None)
