"""`beam-agents journal stats`: how many requests, how they ended, what they cost."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from beam_agents.cli.closing import cost_text
from beam_agents.cli.journal.access import with_reader
from beam_agents.cli.journal.cost import JournalCost
from beam_agents.cli.printable import plain
from beam_agents.journals import JournalReader, JournalStats, RecordFilter, Tally, stats
from beam_agents.report.money import PriceBook
from beam_agents.report.words import clock_text, number_text

__all__ = ["count_journal", "stats_json", "stats_table"]

_OUTCOMES = ("answered", "failed", "in_doubt", "waiting")


def count_journal(uri: str, where: RecordFilter, prices: PriceBook) -> tuple[JournalStats, JournalCost]:
    """Count and price the records that `where` means. Raises `Complaint` when they cannot be read."""
    cost = JournalCost(prices)

    async def count(reader: JournalReader) -> JournalStats:
        return await stats(reader, where, also=cost.add)

    return with_reader(uri, count), cost


def stats_table(found: JournalStats, cost: JournalCost) -> RenderableType:
    """The count for people, a table for each namespace."""
    if not found.total.attempts:
        return Text("No records.")
    parts: list[RenderableType] = []
    for scope, rows in groupby(found.by_model, key=lambda row: row[0]):
        table = _new_table()
        for _, kind, model, tally in rows:
            named = "(steps)" if kind == "step" else model
            table.add_row(plain(named), *_numbers(tally, kind), _cost(cost, scope, model) if kind == "call" else "")
        parts += [plain(scope or "(no namespace)", "bold"), table, ""]
    if len(found.by_model) > 1:
        table = _new_table()
        table.add_row("", *_numbers(found.total, "call"), cost_text(cost.total, cost.prices.currency))
        parts += [Text("all", style="bold"), table, ""]
    return Group(*parts, *(Text.from_markup(line) for line in _notes(found, cost)))


def _new_table() -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("model", overflow="fold", min_width=10)
    table.add_column("requests", justify="right", no_wrap=True)
    table.add_column("ended", overflow="fold")
    table.add_column("tokens", no_wrap=True)
    table.add_column("cost", justify="right", no_wrap=True)
    return table


def stats_json(found: JournalStats, cost: JournalCost) -> dict[str, Any]:
    """The same for programs; money is a string, and `null` where no price is known."""
    return {
        "calls": found.calls,
        **_tally_json(found.total),
        **_money_json(cost.total),
        "currency": cost.prices.currency,
        "prices": _source(cost),
        "models_without_price": sorted(cost.unpriced),
        "oldest_ms": found.oldest_ms,
        "newest_ms": found.newest_ms,
        "size_bytes": found.size_bytes,
        "by_model": [
            {"namespace": scope, "kind": kind, "model": model, **_tally_json(tally)}
            | (_money_json(cost.of(scope, model)) if kind == "call" else {})
            for scope, kind, model, tally in found.by_model
        ],
    }


def _numbers(tally: Tally, kind: str) -> list[str]:
    ended = [(getattr(tally, name), name.replace("_", " ")) for name in _OUTCOMES]
    tokens = f"{number_text(tally.usage.prompt_tokens)} in · {number_text(tally.usage.completion_tokens)} out"
    return [
        number_text(tally.attempts),
        " · ".join(f"{number_text(count)} {how}" for count, how in ended if count),
        tokens if kind == "call" else "",
    ]


def _cost(cost: JournalCost, scope: str, model: str) -> str:
    tally = cost.of(scope, model)
    return cost_text(tally, cost.prices.currency) if tally.requests else "–"


def _notes(found: JournalStats, cost: JournalCost) -> list[str]:
    total, said = found.total, []
    said.append(
        f"{number_text(found.calls)} calls from {clock_text(found.oldest_ms)} to {clock_text(found.newest_ms)}, "
        f"{number_text(found.size_bytes)} bytes"
    )
    if total.lost:
        said.append(f"[yellow]{number_text(total.lost)} in doubt because their process died[/]")
    if total.corrupt:
        said.append(f"[red]{number_text(total.corrupt)} answered, but the stored answer is damaged[/]")
    if cost.total.without_usage:
        said.append(f"{number_text(cost.total.without_usage)} answers did not say their tokens")
    if cost.unpriced:
        models = ", ".join(sorted(cost.unpriced))
        said.append(f"no price is known for {escape(models)}; give one with --prices")
    said.append(f"[dim]prices: {escape(_source(cost))}[/]")
    return said


def _source(cost: JournalCost) -> str:
    today = datetime.now(UTC).date().isoformat()
    return (
        f"{cost.prices.source}, in {cost.prices.currency}, looked up on {today} for the date of each request; "
        "the vendor's own, whatever endpoint answered"
    )


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {
        "requests": tally.attempts,
        **{name: getattr(tally, name) for name in (*_OUTCOMES, "lost", "corrupt")},
        "input_tokens": tally.usage.prompt_tokens,
        "output_tokens": tally.usage.completion_tokens,
        "stored_bytes": tally.stored_bytes,
    }


def _money_json(tally: Any) -> dict[str, Any]:
    unknown = tally.without_price + tally.without_usage
    known = tally.requests > unknown or not tally.requests
    return {"money": str(tally.money) if known else None, "answers_without_price": unknown}
