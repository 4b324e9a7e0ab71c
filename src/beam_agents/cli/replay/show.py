"""A replay on the terminal, and as JSON."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from beam_agents.activation.replay import Replay, ReplayedCall
from beam_agents.cli.closing import cost_text
from beam_agents.cli.printable import plain
from beam_agents.cli.replay.estimate import Estimate, paid_words, to_be_paid
from beam_agents.cli.replay.wording import source_words, verdict_words
from beam_agents.cli.wording import counted
from beam_agents.report.words import clock_text, key_text, money_text, number_text

__all__ = ["replay_json", "show_replay"]

_ID_CHARS = 10
_STYLES = {"reproduced": "green", "diverged": "red", "not_in_journal": "yellow"}


def show_replay(replays: tuple[Replay, ...], console: Console, *, answers: bool, estimate: Estimate | None) -> None:
    """Print the calls of the last replay, what it came to, and the verdict or the estimate."""
    told = replays[-1]
    position = told.position
    console.print(
        plain(f"{key_text(position.entity_key)}, seq {position.seq}, in {position.scope.label}", "bold"),
        soft_wrap=True,
    )
    if told.calls:
        console.print(_table(told, answers=answers, estimate=estimate))
    for line in _state_notes(replays):
        console.print(line, soft_wrap=True)
    if estimate is None:
        for line in _ending(told, answers=answers):
            console.print(line, soft_wrap=True)
        console.print(Text(verdict_words(told), style=f"bold {_STYLES[told.verdict]}"), soft_wrap=True)
    else:
        _say_estimate(told, console, estimate)


def replay_json(replays: tuple[Replay, ...], *, answers: bool, estimate: Estimate | None) -> dict[str, Any]:
    """The same for programs; texts and outputs only with `answers`."""
    told = replays[-1]
    letter = told.outcome.dead_letter
    found: dict[str, Any] = {
        "entity_key": key_text(told.position.entity_key),
        "seq": told.position.seq,
        "namespace": told.position.scope.label,
        **({} if estimate is not None else {"verdict": told.verdict, "words": verdict_words(told)}),
        "calls": [_call_json(call, answers=answers, estimate=estimate) for call in told.calls],
        "earlier_not_reproduced": [one.position.seq for one in replays[:-1] if one.verdict != "reproduced"],
        "ended": "committed" if letter is None else letter.error_type,
        "outputs": len(told.outcome.outputs),
    }
    if answers:
        found["output_values"] = list(told.outcome.outputs)
    if estimate is not None:
        tally = estimate.total(told.calls)
        unknown = tally.without_price + tally.without_usage
        found["estimate"] = {
            "model": estimate.model,
            "calls_to_be_paid": tally.requests,
            "input_tokens": tally.input_tokens,
            "output_tokens": tally.output_tokens,
            "money": str(tally.money) if tally.requests > unknown or not tally.requests else None,
            "calls_without_price": unknown,
            "currency": estimate.prices.currency,
            "basis": estimate.basis(),
        }
    return found


def _call_json(call: ReplayedCall, *, answers: bool, estimate: Estimate | None) -> dict[str, Any]:
    usage = call.usage
    found: dict[str, Any] = {
        "step_index": call.step_index,
        "kind": call.kind,
        "call_id": call.call_id,
        "model": call.model_id,
        "source": call.source,
        "changed": list(call.changed),
        "input_tokens": None if usage is None else usage.prompt_tokens,
        "output_tokens": None if usage is None else usage.completion_tokens,
        "text_sha256": call.text_digest,
    }
    if answers:
        found["text"] = call.text
    if estimate is not None and call in to_be_paid((call,)):
        price = estimate.price(call)
        found["estimated_price"] = None if price is None else str(price)
    return found


def _table(told: Replay, *, answers: bool, estimate: Estimate | None) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("asks", overflow="fold")
    table.add_column("call id", no_wrap=True)
    table.add_column("source", overflow="fold")
    table.add_column("tokens", justify="right", no_wrap=True)
    if estimate is not None:
        table.add_column("price", justify="right", no_wrap=True)
    table.add_column("text" if answers else "sha256 of the text", overflow="fold")
    for call in told.calls:
        price = [] if estimate is None else [_price(call, estimate)]
        text = call.text if answers else (call.text_digest or "")[:_ID_CHARS]
        table.add_row(
            str(call.step_index),
            plain("(step)" if call.kind == "step" else call.model_id),
            call.call_id[:_ID_CHARS],
            plain(source_words(call), "red" if call.source in ("diverged", "missing") else ""),
            _tokens(call),
            *price,
            plain(text or ""),
        )
    return table


def _price(call: ReplayedCall, estimate: Estimate) -> str:
    if call not in to_be_paid((call,)):
        return "free"
    price = estimate.price(call)
    return "unknown" if price is None else f"about {money_text(price, estimate.prices.currency)}"


def _tokens(call: ReplayedCall) -> str:
    usage = call.usage
    return "" if usage is None else f"{number_text(usage.prompt_tokens)} + {number_text(usage.completion_tokens)}"


def _state_notes(replays: tuple[Replay, ...]) -> list[Text]:
    odd = [one for one in replays[:-1] if one.verdict != "reproduced"]
    if not odd:
        return []
    first = odd[0]
    more = "" if len(odd) == 1 else f", nor were {len(odd) - 1} others"
    said = (
        f"The earlier event seq {first.position.seq} was not reproduced ({verdict_words(first)}){more}: "
        "the state that this one begins with may be another."
    )
    return [Text(said, style="yellow")]


def _ending(told: Replay, *, answers: bool) -> list[Text]:
    letter, outputs = told.outcome.dead_letter, told.outcome.outputs
    began = min((call.record.began_ms for call in told.calls if call.record is not None), default=None)
    when = "" if began is None else f" First recorded at {clock_text(began)}."
    if letter is not None:
        if told.deviation is not None:
            return []
        said = (letter.message.strip().splitlines() or [""])[0]
        return [plain(f"It ended as a dead letter: {letter.error_type}: {said}.{when}")]
    digest = "" if not outputs else f", sha256 {sha256(orjson.dumps(outputs)).hexdigest()[:_ID_CHARS]}"
    lines = [Text(f"It committed, with {counted(len(outputs), 'output')}{digest}.{when}")]
    return lines + ([plain(orjson.dumps(one).decode()) for one in outputs] if answers else [])


def _say_estimate(told: Replay, console: Console, estimate: Estimate) -> None:
    tally = estimate.total(told.calls)
    said = f"With {estimate.model}: {paid_words(told.calls)}"
    if tally.requests:
        said += (
            f", about {number_text(tally.input_tokens)} tokens in and {number_text(tally.output_tokens)} out, "
            f"{cost_text(tally, estimate.prices.currency)}"
        )
    console.print(Text(f"{said}.", style="bold"), soft_wrap=True)
    broken = told.broken_off_at
    if broken is not None:
        said = (
            f"What comes after {broken.kind} {broken.step_index} is not known: the journal has no answer at its step."
        )
        console.print(Text(said, style="yellow"), soft_wrap=True)
    if tally.requests:
        console.print(Text(f"This is {estimate.basis()}.", style="dim"), soft_wrap=True)
