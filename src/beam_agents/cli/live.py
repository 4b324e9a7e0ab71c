"""Shows how a run is getting on: a screen on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live

from beam_agents.cli.account import RunAccount
from beam_agents.cli.panel import Pace, Vitals, line, panel

__all__ = ["Display", "display_for"]

_PLAIN_EVERY_MS = 5_000


class Display(Protocol):
    """Shows numbers while a run goes on; a context manager."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def update(self, account: RunAccount, vitals: Vitals) -> None:
        """Show these numbers."""
        ...


def display_for(console: Console, title: str, *, quiet: bool, now_ms: Callable[[], float]) -> Display:
    """A live screen on a terminal, plain lines elsewhere, nothing when `quiet`."""
    if quiet:
        return _Silent()
    return _Screen(console, title, now_ms) if console.is_terminal else _PlainLines(console, now_ms)


class _Silent:
    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        pass

    def update(self, account: RunAccount, vitals: Vitals) -> None:
        pass


class _PlainLines(_Silent):
    """One line every five seconds."""

    def __init__(self, console: Console, now_ms: Callable[[], float]) -> None:
        self._console = console
        self._now_ms = now_ms
        self._said_at = now_ms()
        self._pace = Pace()

    def update(self, account: RunAccount, vitals: Vitals) -> None:
        now_ms = self._now_ms()
        self._pace.note(now_ms, account.done)
        if now_ms - self._said_at < _PLAIN_EVERY_MS:
            return
        self._said_at = now_ms
        self._console.print(line(account, vitals, self._pace), highlight=False, markup=False, soft_wrap=True)


class _Screen(_Silent):
    """Drawn four times a second, and gone at the end."""

    def __init__(self, console: Console, title: str, now_ms: Callable[[], float]) -> None:
        self._title = title
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._pace = Pace()
        self._latest: tuple[RunAccount, Vitals] | None = None
        self._live = Live(console=console, get_renderable=self._drawn, refresh_per_second=4, transient=True)

    def __enter__(self) -> _Screen:
        self._live.start()
        return self

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        self._live.stop()

    def update(self, account: RunAccount, vitals: Vitals) -> None:
        self._pace.note(self._now_ms(), account.done)
        self._latest = account, vitals

    def _drawn(self) -> RenderableType:
        if self._latest is None:
            return f"{self._title}: starting"
        took_ms = self._now_ms() - self._began_ms
        return panel(*self._latest, self._pace, title=self._title, took_ms=took_ms)
