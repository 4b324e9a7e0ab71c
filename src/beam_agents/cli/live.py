"""Shows how a run is getting on: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from beam_agents.cli.account import RunAccount
from beam_agents.cli.closing import cost_text
from beam_agents.cli.wording import counted

__all__ = ["Display", "Vitals", "display_for"]

_PLAIN_EVERY_MS = 5_000


@dataclass(frozen=True, slots=True)
class Vitals:
    """What only the running process knows: activations at work now, and circuits that are not closed."""

    in_flight: int = 0
    circuits: tuple[str, ...] = ()


class Display(Protocol):
    """Shows numbers while a run goes on; a context manager."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def update(self, account: RunAccount, vitals: Vitals) -> None:
        """Show these numbers."""
        ...


def display_for(console: Console, events: int, *, quiet: bool, now_ms: Callable[[], float]) -> Display:
    """A live bar on a terminal, plain lines elsewhere, nothing when `quiet`."""
    if quiet:
        return _Silent()
    return _Bar(console, events) if console.is_terminal else _PlainLines(console, now_ms)


def _said(account: RunAccount, vitals: Vitals) -> str:
    counts, paid = account.counts, account.paid
    parts = [f"{vitals.in_flight:,} in flight"]
    parts += [counted(counts["hits"], "hit")] if counts["hits"] else []
    parts += [counted(counts["retries"], "retry", "retries")] if counts["retries"] else []
    parts += [f"{account.dead.total():,} dead"] if account.dead else []
    parts += [f"circuit {state}" for state in vitals.circuits]
    parts.append(f"{paid.tokens:,} tokens")
    cost = cost_text(paid, account.prices.currency)
    return " · ".join(parts if cost == "unknown" or not paid.requests else [*parts, cost])


class _Silent:
    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        pass

    def update(self, account: RunAccount, vitals: Vitals) -> None:
        pass


class _PlainLines(_Silent):
    """One line when something has changed, at most every five seconds."""

    def __init__(self, console: Console, now_ms: Callable[[], float]) -> None:
        self._console = console
        self._now_ms = now_ms
        self._said_at = now_ms()

    def update(self, account: RunAccount, vitals: Vitals) -> None:
        if self._now_ms() - self._said_at < _PLAIN_EVERY_MS:
            return
        self._said_at = self._now_ms()
        self._console.print(f"{account.done:,}/{account.events:,} events · {_said(account, vitals)}", highlight=False)


class _Bar(_Silent):
    """A progress bar and the numbers beside it."""

    def __init__(self, console: Console, events: int) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("", total=events, said="starting")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, kind: object, error: object, tb: object) -> None:
        self._progress.stop()

    def update(self, account: RunAccount, vitals: Vitals) -> None:
        self._progress.update(self._task, completed=account.done, said=_said(account, vitals))
