"""A report in three answers: what happened, what it cost, what it would have cost without stored answers."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from beam_agents.report.contents import Report
from beam_agents.report.words import money_text, number_text, share_text

__all__ = ["headline"]


def headline(report: Report) -> tuple[tuple[str, str], ...]:
    """Three questions and their answers; facts that are nothing are left out."""
    return (
        ("What happened", " ".join(_happened(report))),
        ("What it cost", " ".join(_cost(report))),
        ("What it would have cost without stored answers", _otherwise(report)),
    )


def _happened(report: Report) -> Iterator[str]:
    activations = report.committed + report.dead_letters
    within = f" in {number_text(activations)} activations" if activations else ""
    parts = [f"{number_text(report.answered)} answered", f"{number_text(report.stored)} from a store"]
    if report.failed:
        parts.append(f"{number_text(report.failed)} failed")
    yield f"{number_text(report.calls)} calls{within}: {', '.join(parts)}."
    if report.dead_letters:
        share = share_text(report.dead_letters, activations)
        yield f"{number_text(report.dead_letters)} activations ({share}) became dead letters."


def _cost(report: Report) -> Iterator[str]:
    wasted, doubt = report.tally("discarded"), report.tally("in_doubt").requests
    yield f"{_money(report, report.spent.money, report.spent.tokens)}."
    if wasted.requests:
        yield (
            f"Of that, {_money(report, wasted.money, wasted.tokens)} went into {number_text(wasted.requests)} answers "
            "of activations that failed."
        )
    if report.unpriced_models:
        yield f"No price is known for {', '.join(report.unpriced_models)}: those tokens are in no sum of money."
    if doubt:
        verb = "request is" if doubt == 1 else "requests are"
        yield f"{number_text(doubt)} {verb} in doubt: served and charged perhaps, but no readable answer arrived."


def _otherwise(report: Report) -> str:
    saved = report.saved
    if not saved.requests:
        return "The same: no call was answered from a store."
    answers = f"{number_text(saved.requests)} answers from a store"
    if not saved.money:
        return f"{number_text(saved.tokens)} tokens more: {answers} saved them."
    less = share_text(saved.money, report.without_replay)
    bill, kept = money_text(report.without_replay, report.currency), money_text(saved.money, report.currency)
    return f"{bill}: {answers} saved {kept} ({less})."


def _money(report: Report, money: Decimal, tokens: int) -> str:
    return f"{money_text(money, report.currency)} ({number_text(tokens)} tokens)"
