"""One line of log for each thing that is worth a person's eye; rate-limited, with no prompt, answer, event or key.

A line is `what name=value …`. The same fields are on the log record as `record.beam_agents`, for formatters that
write JSON. Metrics count what the limit holds back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["NOTICES", "Notice", "Notices", "notices", "reset_notices"]

Notice: TypeAlias = Literal[
    "call_in_doubt", "circuit_closed", "circuit_opened", "dead_letter", "divergence", "journal_failing"
]
"""What a line tells of."""

NOTICES: Final[Mapping[Notice, str]] = {
    "circuit_opened": "an endpoint kept failing: requests to it are refused until a trial succeeds",
    "circuit_closed": "its trial succeeded",
    "call_in_doubt": "a request may have been served and charged, but gave no readable answer",
    "dead_letter": "an activation failed and is a record on `.errors`",
    "divergence": "an activation ran again and asked, or was answered, something else than before",
    "journal_failing": "the journal cannot be reached or written; calls wait for it",
}
"""What has happened when a line of each kind is written."""

_log = logging.getLogger("beam_agents")

_WINDOW_MS: Final = 60_000
_MOST_WINDOWS: Final = 256
_MOST_CHARS: Final = 240


@dataclass(slots=True)
class _Window:
    since_ms: int
    told: int = 0
    held_back: int = 0


class Notices:
    """Writes at most `per_minute` lines for each kind of notice and what it is about.

    The first line after that says how many were `held_back`. Takes no lock: between threads it may write a line
    more or less.
    """

    def __init__(self, per_minute: int = 10) -> None:
        self._per_minute = per_minute
        self._windows: dict[tuple[str, str], _Window] = {}

    def tell(self, what: Notice, now_ms: int, *, about: str = "", **fields: object) -> None:
        """Write a line, unless there were enough of them.

        Args:
            what: the kind of notice.
            now_ms: the caller's clock.
            about: such as an endpoint; each has a limit of its own.
            fields: what is told, in this order; `None` is left out.
        """
        window = self._windows.get((what, about))
        held_back = 0
        if window is None or not 0 <= now_ms - window.since_ms < _WINDOW_MS:
            held_back = 0 if window is None else window.held_back
            window = self._begin(what, about, now_ms)
        if window.told >= self._per_minute:
            window.held_back += 1
            return
        window.told += 1
        said = {name: _plain(value) for name, value in fields.items() if value is not None}
        if held_back:
            said["held_back"] = held_back
        line = " ".join([what, *(f"{name}={_shown(value)}" for name, value in said.items())])
        _log.warning("%s", line, extra={"beam_agents": {"notice": what, **said}})

    def forget(self) -> None:
        """Begin anew, as if nothing had been told."""
        self._windows.clear()

    def _begin(self, what: str, about: str, now_ms: int) -> _Window:
        if len(self._windows) >= _MOST_WINDOWS:
            self._windows.clear()
        window = self._windows[what, about] = _Window(now_ms)
        return window


def _plain(value: object) -> str | int:
    return value if isinstance(value, int) else str(value)[:_MOST_CHARS]


def _shown(value: str | int) -> str:
    text = str(value)
    return text if text.isprintable() and text and not set(text) & set(' ="') else json.dumps(text)


notices: Final = Notices()
"""Those of this process."""


def reset_notices() -> None:
    """Forget what was told in this process. For tests."""
    notices.forget()
