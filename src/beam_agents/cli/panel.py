"""What an operator wants to know of a run while it goes on, on one screen or in one line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from beam_agents.cli.account import RunAccount
from beam_agents.cli.closing import cost_text
from beam_agents.cli.wording import counted
from beam_agents.report.words import duration_text, share_text

__all__ = ["Pace", "Vitals", "line", "panel"]

_WINDOW_MS = 10_000
_SHOWN_KINDS = 3
_SHOWN_CIRCUITS = 4
_COLOURS = {"closed": "green", "open": "bold red", "half_open": "yellow"}


@dataclass(frozen=True, slots=True)
class Vitals:
    """What only the running process knows.

    Attributes:
        at_work: activations at work now.
        waiting: events taken in that wait for their turn.
        on_the_wire: requests that are waiting for their answer.
        circuits: endpoints and the states of their circuits.
    """

    at_work: int = 0
    waiting: int = 0
    on_the_wire: int = 0
    circuits: tuple[tuple[str, str], ...] = ()


class Pace:
    """Events a second over the last ten seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now_ms: float, done: int) -> None:
        """So many are done by now."""
        self._seen.append((now_ms, done))
        while self._seen[0][0] < now_ms - _WINDOW_MS:
            self._seen.popleft()

    @property
    def a_second(self) -> float:
        """The pace; 0 while it is not known."""
        if not self._seen:
            return 0.0
        (since_ms, before), (now_ms, done) = self._seen[0], self._seen[-1]
        return (done - before) * 1000 / (now_ms - since_ms) if now_ms > since_ms else 0.0


def line(account: RunAccount, vitals: Vitals, pace: Pace) -> str:
    """Everything in one plain line; what is zero is left out."""
    counts = account.counts
    parts = [f"{account.done:,}/{account.events:,} events", f"{pace.a_second:,.1f}/s", f"{vitals.at_work:,} in flight"]
    parts += _latency(account)
    parts += [counted(counts["hits"], "hit")] if counts["hits"] else []
    parts += _request_notes(account)
    parts += [f"{account.dead.total():,} dead"] if account.dead else []
    parts += [f"circuit {state} {endpoint}" for endpoint, state in vitals.circuits if state != "closed"]
    parts.append(f"{account.paid.tokens:,} tokens")
    cost = _cost(account)
    return " · ".join([*parts, cost] if cost else parts)


def panel(account: RunAccount, vitals: Vitals, pace: Pace, *, title: str, took_ms: float) -> RenderableType:
    """The screen."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(justify="right", style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for row in _rows(account, vitals):
        grid.add_row(*row)
    return Panel(
        Group(_progress(account, pace), "", grid),
        title=f"[bold]{escape(title)}[/] · {duration_text(took_ms)}",
        border_style="red" if account.dead else "cyan",
        padding=(0, 1),
    )


def _progress(account: RunAccount, pace: Pace) -> RenderableType:
    left = account.events - account.done
    left_ms = left * 1000 / pace.a_second if pace.a_second else None
    said = [share_text(account.done, account.events), f"{pace.a_second:,.1f} events/s"]
    said += [f"{duration_text(left_ms)} left"] if left and left_ms is not None else []
    bar = Table.grid(padding=(0, 2), expand=True)
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True, justify="right")
    bar.add_row(
        ProgressBar(total=max(1, account.events), completed=account.done),
        f"[cyan]{account.done:,}[/]/{account.events:,} · {' · '.join(said)}",
    )
    return bar


def _rows(account: RunAccount, vitals: Vitals) -> Iterator[tuple[str, str, str]]:
    counts, paid = account.counts, account.paid
    now = [f"{vitals.on_the_wire:,} on the wire", *([f"{vitals.waiting:,} waiting"] if vitals.waiting else [])]
    yield "in flight", f"{vitals.at_work:,}", " · ".join(now)
    hits = f"[green]{counted(counts['hits'], 'hit')}[/]" if counts["hits"] else "no hits yet"
    yield "calls", f"{counts['calls']:,}", " · ".join([*_latency(account), hits])
    yield "requests", f"{counts['requests']:,}", " · ".join(_request_notes(account)) or "no retries"
    yield "tokens", f"{paid.tokens:,}", f"{paid.input_tokens:,} in · {paid.output_tokens:,} out"
    yield "cost", _cost(account) or "unknown", _saved(account)
    yield "circuits", "", _circuits(vitals)
    yield "errors", f"{account.dead.total():,}", _errors(account)


def _latency(account: RunAccount) -> list[str]:
    if not account.latency.count:
        return []
    return [f"p{percent} {duration_text(account.latency.percentile(percent / 100))}" for percent in (50, 95)]


def _request_notes(account: RunAccount) -> list[str]:
    counts = account.counts
    told = [counted(counts["retries"], "retry", "retries")] if counts["retries"] else []
    told += [f"{counts['in_doubt']:,} in doubt"] if counts["in_doubt"] else []
    told += [f"waited {duration_text(counts['waited_ms'])} in all"] if counts["waited_ms"] else []
    return told


def _cost(account: RunAccount) -> str:
    cost = cost_text(account.paid, account.prices.currency)
    return "" if cost == "unknown" or not account.paid.requests else cost


def _saved(account: RunAccount) -> str:
    saved = account.recovered
    if not saved.requests:
        return ""
    worth = cost_text(saved, account.prices.currency)
    return f"[green]{saved.tokens:,} tokens{'' if worth == 'unknown' else f' and {worth}'} saved by the journal[/]"


def _circuits(vitals: Vitals) -> str:
    shown = sorted(vitals.circuits, key=lambda circuit: circuit[1] == "closed")[:_SHOWN_CIRCUITS]
    more = len(vitals.circuits) - len(shown)
    told = [f"[{_COLOURS[state]}]{state.replace('_', '-')}[/] {escape(endpoint)}" for endpoint, state in shown]
    return " · ".join([*told, *([f"{more} more"] if more else [])]) or "none used yet"


def _errors(account: RunAccount) -> str:
    kinds = sorted(account.dead.copy().items(), key=lambda kind: -kind[1])
    told = [f"{count:,} × {escape(kind)}" for kind, count in kinds[:_SHOWN_KINDS]]
    told += ["…"] if len(kinds) > _SHOWN_KINDS else []
    return f"[red]{' · '.join(told)}[/]" if told else "no dead letters"
