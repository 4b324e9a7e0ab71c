"""A report in a few sentences: what happened, what it cost, what it would have cost without stored answers."""

from __future__ import annotations

from beam_agents.report.contents import Report
from beam_agents.report.words import money_text, number_text, share_text

__all__ = ["headline"]


def headline(report: Report) -> list[str]:
    """One sentence a fact; facts that are nothing are left out."""
    return [sentence for sentence in (_happened(report), *_money(report), _doubt(report)) if sentence]


def _happened(report: Report) -> str:
    activations = report.committed + report.dead_letters
    within = f" in {number_text(activations)} activations" if activations else ""
    dead = f", {number_text(report.dead_letters)} of them dead letters" if report.dead_letters else ""
    parts = [f"{number_text(report.answered)} answered", f"{number_text(report.stored)} from a store"]
    if report.failed:
        parts.append(f"{number_text(report.failed)} failed")
    return f"{number_text(report.calls)} calls{within}{dead}: {', '.join(parts)}."


def _money(report: Report) -> list[str]:
    spent, saved, wasted = report.spent, report.saved, report.tally("discarded")
    told = [f"Spent {_cost(report, spent.money, spent.tokens)}."]
    if saved.requests and saved.money:
        told.append(
            f"Stored answers saved {money_text(saved.money, report.currency)}: without them the bill would have been "
            f"{money_text(report.without_replay, report.currency)} "
            f"({share_text(saved.money, report.without_replay)} less)."
        )
    elif saved.requests:
        told.append(f"Stored answers saved {number_text(saved.requests)} requests, {number_text(saved.tokens)} tokens.")
    if wasted.requests:
        told.append(
            f"{_cost(report, wasted.money, wasted.tokens)} of that went into {number_text(wasted.requests)} answers "
            "of activations that failed."
        )
    if report.unpriced_models:
        told.append(f"No price is known for {', '.join(report.unpriced_models)}: those tokens are in no sum of money.")
    return told


def _cost(report: Report, money: object, tokens: int) -> str:
    return f"{money_text(money, report.currency)} ({number_text(tokens)} tokens)"  # type: ignore[arg-type]


def _doubt(report: Report) -> str:
    doubt = report.tally("in_doubt").requests
    if not doubt:
        return ""
    verb = "request is" if doubt == 1 else "requests are"
    return f"{number_text(doubt)} {verb} in doubt: served and charged perhaps, but no readable answer arrived."
