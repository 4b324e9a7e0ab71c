"""The tables of a report, the same for Markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from beam_agents.report.activations import Activation
from beam_agents.report.contents import Report
from beam_agents.report.problems import Problem
from beam_agents.report.tally import Tally
from beam_agents.report.words import duration_text, key_text, money_text, number_text, share_text

__all__ = ["SPEND_MEANING", "Table", "activation_table", "comparison", "tables"]

SPEND_MEANING = {
    "billed": "answered; its activation committed",
    "recovered": "answered before a bundle failed; found again instead of bought again",
    "discarded": "answered; its activation became a dead letter",
    "failed": "the endpoint answered with an error",
    "in_doubt": "served perhaps, but no readable answer arrived",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of texts. `anchor` names it in links; `numeric` says which columns hold numbers."""

    anchor: str
    title: str
    columns: Sequence[str]
    numeric: Sequence[bool]
    rows: Sequence[Sequence[str]]


def tables(report: Report) -> list[Table]:
    """Every table that has rows, in the order of the page."""
    found = [
        _spend(report),
        _models(report),
        _saved(report),
        _keys(report),
        _durations(report),
        _problems("errors", "Calls that failed", report.errors),
        _problems("requests", "Requests that failed", report.failed_requests),
        _problems("letters", "Dead letters", report.letters),
        _problems("schema", "Answers that broke their schema", report.schema_failures),
        activation_table(report, "slowest", "Slowest activations", report.slowest),
        activation_table(report, "dearest", "Dearest activations", report.dearest),
    ]
    return [table for table in found if table.rows]


def activation_table(report: Report, anchor: str, title: str, activations: Sequence[Activation]) -> Table:
    """Activations, one a row."""
    return Table(
        anchor,
        title,
        ("key", "seq", "outcome", "calls", "time", "tokens", "money"),
        (False, True, False, True, True, True, True),
        [
            (
                key_text(one.entity_key),
                str(one.seq),
                one.error or one.outcome or "unknown",
                number_text(one.calls),
                duration_text(one.duration_ms),
                number_text(one.tokens),
                money_text(one.money, report.currency),
            )
            for one in activations
        ],
    )


def comparison(before: Report, after: Report) -> Table:
    """Two runs side by side: each figure, and its change."""
    rows = [_compared(name, read(before), read(after), show) for name, read, show in _figures(before.currency)]
    return Table("compare", "Two runs", ("", "first", "second", "change"), (False, True, True, True), rows)


def _spend(report: Report) -> Table:
    rows = [
        (row.spend.replace("_", " "), *_tally(row.tally, report.currency), SPEND_MEANING[row.spend])
        for row in report.spend
    ]
    return Table("spend", "Spend", ("class", *_TALLY, "meaning"), (False, *_TALLY_NUMERIC, False), rows)


def _models(report: Report) -> Table:
    rows = [
        (
            row.model,
            *_tally(row.paid, report.currency),
            number_text(row.failed),
            number_text(row.in_doubt),
        )
        for row in report.models
    ]
    return Table(
        "models", "Models", ("model", *_TALLY, "failed", "in doubt"), (False, *_TALLY_NUMERIC, True, True), rows
    )


def _saved(report: Report) -> Table:
    rows = [(row.store, *_tally(row.tally, report.currency)) for row in report.saved_by]
    return Table("saved", "Saved by stored answers", ("store", "answers", *_TALLY[1:]), (False, *_TALLY_NUMERIC), rows)


def _keys(report: Report) -> Table:
    rows = [
        (row.key, number_text(row.calls), number_text(row.tokens), money_text(row.money, report.currency))
        for row in report.keys
    ]
    return Table("keys", "Heaviest keys", ("key", "calls", "tokens", "money"), (False, True, True, True), rows)


def _durations(report: Report) -> Table:
    rows = [
        (
            row.what,
            number_text(row.count),
            *(duration_text(value) for value in (row.p50, row.p90, row.p95, row.p99, row.greatest, row.mean)),
        )
        for row in report.durations
        if row.count
    ]
    columns = ("", "count", "p50", "p90", "p95", "p99", "max", "mean")
    return Table("latency", "Time", columns, (False, *[True] * 7), rows)


def _problems(anchor: str, title: str, problems: Sequence[Problem]) -> Table:
    rows = [
        (
            problem.kind,
            number_text(problem.count),
            ", ".join(f"{name} {text}" for name, text in problem.example.items()),
        )
        for problem in problems
    ]
    return Table(anchor, title, ("kind", "count", "for example"), (False, True, False), rows)


_TALLY = ("requests", "money", "input tokens", "cached", "output tokens", "reasoning")
_TALLY_NUMERIC = (True,) * len(_TALLY)


def _tally(tally: Tally, currency: str) -> tuple[str, ...]:
    """Unknown tokens and unknown money are a dash; money of which a part has no price says so."""
    if tally.requests == tally.without_usage:
        return (number_text(tally.requests), *["–"] * 5)
    money = money_text(tally.money, currency)
    if tally.without_price:
        money = "no price known" if not tally.money else f"{money} and more"
    counts = (tally.input_tokens, tally.cached_tokens, tally.output_tokens, tally.reasoning_tokens)
    return (number_text(tally.requests), money, *map(number_text, counts))


_Show = Callable[[float], str]


def _figures(currency: str) -> list[tuple[str, Callable[[Report], float | None], _Show]]:
    def money(value: float) -> str:
        return money_text(Decimal(str(value)), currency)

    def count(value: float) -> str:
        return number_text(round(value))

    return [
        ("calls", lambda report: report.calls, count),
        ("requests", lambda report: report.requests, count),
        ("answers from a store", lambda report: report.stored, count),
        ("failed calls", lambda report: report.failed, count),
        ("dead letters", lambda report: report.dead_letters, count),
        ("tokens paid", lambda report: report.spent.tokens, count),
        ("money spent", lambda report: float(report.spent.money), money),
        ("money saved", lambda report: float(report.saved.money), money),
        ("bill without stored answers", lambda report: float(report.without_replay), money),
        ("money discarded", lambda report: float(report.tally("discarded").money), money),
        ("requests in doubt", lambda report: report.tally("in_doubt").requests, count),
        ("p50 of calls", lambda report: report.durations[0].p50, duration_text),
        ("p95 of calls", lambda report: report.durations[0].p95, duration_text),
        ("p99 of calls", lambda report: report.durations[0].p99, duration_text),
    ]


def _compared(name: str, before: float | None, after: float | None, show: _Show) -> tuple[str, str, str, str]:
    if before is None or after is None:
        return name, "–" if before is None else show(before), "–" if after is None else show(after), "–"
    if before == after:
        return name, show(before), show(after), "same"
    change = share_text(after - before, before)
    return name, show(before), show(after), change if change.startswith("-") or change == "–" else f"+{change}"
