"""What a run says at its end: a table for people, or one object of JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from beam_agents.cli.account import RunAccount
from beam_agents.cli.wording import counted
from beam_agents.report.tally import Tally
from beam_agents.report.words import duration_text, money_text

__all__ = ["closing_json", "closing_table", "cost_text"]


def closing_table(account: RunAccount, *, title: str, took_ms: float, date: str, files: list[str]) -> RenderableType:
    """The closing table. `date` is the day of the prices; `files` are named below it."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(justify="right", style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, number, said in _rows(account, date):
        grid.add_row(label, number, said)
    grid.add_row("files", "", f"[dim]{escape(', '.join(files))}[/]")
    parts: list[RenderableType] = [grid]
    for kind, count in account.dead.most_common(5):
        message = account.example[kind].strip().splitlines()[0] if account.example[kind].strip() else ""
        parts.append(Text.from_markup(f"[red]✗[/] {count:,} × [bold]{escape(kind)}[/]: {escape(message[:200])}"))
    return Panel(
        Group(*parts),
        title=f"[bold]{escape(title)}[/] · {duration_text(took_ms)}",
        border_style="red" if account.dead else "green",
        expand=False,
        padding=(0, 1),
    )


def closing_json(account: RunAccount, *, took_ms: float, date: str, namespace: str) -> dict[str, Any]:
    """The same numbers for programs; money is a string, and absent where no price is known."""
    paid, saved = account.paid, account.recovered
    counts = account.counts
    return {
        "events": account.events,
        "committed": account.committed,
        "dead_letters": dict(account.dead),
        "outputs": account.outputs,
        "calls": counts["calls"],
        "hits": counts["hits"],
        "requests": counts["requests"],
        "retries": counts["retries"],
        "failed_requests": counts["failed_requests"],
        "in_doubt": counts["in_doubt"],
        "in_doubt_before": counts["in_doubt_before"],
        "waited_ms": counts["waited_ms"],
        "paid": _tally_json(paid),
        "recovered": _tally_json(saved),
        "currency": account.prices.currency,
        "prices": f"{account.prices.source}, {date}",
        "models_without_price": sorted(account.unpriced),
        "namespace": namespace,
        "took_ms": round(took_ms),
    }


def cost_text(tally: Tally, currency: str) -> str:
    """The money of `tally`; says so where a price is unknown."""
    if tally.requests and tally.without_price + tally.without_usage == tally.requests:
        return "unknown"
    at_least = "at least " if tally.without_price or tally.without_usage else ""
    return at_least + money_text(tally.money, currency)


def _rows(account: RunAccount, date: str) -> list[tuple[str, str, str]]:
    counts, paid = account.counts, account.paid
    dead, asked = account.dead.total(), counts["calls"] - counts["hits"]
    events = _joined(
        f"{account.committed:,} committed",
        dead and f"[red]{counted(dead, 'dead letter')}[/]",
        counted(account.outputs, "output"),
    )
    calls = _joined(asked and f"{asked:,} asked the model", counts["hits"] and f"{counts['hits']:,} already answered")
    requests = _joined(
        counts["retries"] and counted(counts["retries"], "retry", "retries"),
        counts["waited_ms"] and f"{duration_text(counts['waited_ms'])} of waiting, all calls added up",
        counts["in_doubt"] and f"[yellow]{counts['in_doubt']:,} in doubt[/]",
        counts["in_doubt_before"] and f"[yellow]{counts['in_doubt_before']:,} of an earlier run in doubt[/]",
    )
    tokens = _joined(
        f"{paid.input_tokens:,} in",
        f"{paid.output_tokens:,} out",
        paid.without_usage and f"{counted(paid.without_usage, 'answer')} did not say",
    )
    rows = [
        ("events", f"{account.events:,}", events),
        ("calls", f"{counts['calls']:,}", calls),
        ("requests", f"{counts['requests']:,}", requests),
        ("tokens", f"{paid.tokens:,}", tokens if paid.requests else ""),
        ("cost", cost_text(paid, account.prices.currency), _price_note(account, date) if paid.requests else ""),
    ]
    return rows + _recovered_row(account)


def _recovered_row(account: RunAccount) -> list[tuple[str, str, str]]:
    saved = account.recovered
    if not saved.requests:
        return []
    worth = cost_text(saved, account.prices.currency)
    in_money = "" if worth == "unknown" else f" and {worth}"
    answers = "answer" if saved.requests == 1 else "answers"
    said = f"[green]{answers} from the journal: {saved.tokens:,} tokens{in_money} saved[/]"
    return [("recovered", f"[green]{saved.requests:,}[/]", said)]


def _joined(*parts: str | int) -> str:
    """The parts that are texts; a count of zero is left out."""
    return " · ".join(part for part in parts if isinstance(part, str) and part)


def _price_note(account: RunAccount, date: str) -> str:
    if account.unpriced:
        return f"no price is known for {escape(', '.join(sorted(account.unpriced)))}; give one with --prices"
    return f"[dim]{escape(account.prices.source)}, on {date}[/]"


def _tally_json(tally: Tally) -> dict[str, Any]:
    known = tally.requests > tally.without_price + tally.without_usage or not tally.requests
    return {
        "answers": tally.requests,
        "input_tokens": tally.input_tokens,
        "output_tokens": tally.output_tokens,
        "money": str(tally.money) if known else None,
        "answers_without_price": tally.without_price + tally.without_usage,
    }
