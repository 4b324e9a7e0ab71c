"""Reads files of traces and dead letters into a report."""

from __future__ import annotations

from collections.abc import Sequence

from beam_agents.exporters.jsonl import JsonLines, open_lines, read_events
from beam_agents.report.account import SpendClass
from beam_agents.report.contents import (
    CircuitRow,
    DurationRow,
    KeyRow,
    ModelRow,
    Report,
    SavedRow,
    SlicePoint,
    SpendRow,
)
from beam_agents.report.dead_letters import Letter
from beam_agents.report.distribution import Distribution
from beam_agents.report.gather import Gathering
from beam_agents.report.money import PriceBook
from beam_agents.report.tally import Tally
from beam_agents.report.words import key_text

__all__ = ["build_report", "report_of"]

_SHOWN_KEYS = 20


def build_report(traces: Sequence[str], errors: Sequence[str] = (), *, prices: PriceBook | None = None) -> Report:
    """Read files of trace events and of dead letters, plain or gzip-compressed, as one run.

    Raises:
        OSError: when a file cannot be read.
        JsonLineError: for a line that cannot be read; a cut last line is left out and noted instead.
    """
    gathering, notes = Gathering(prices), []
    for path in traces:
        with open_lines(path) as stream:
            events = read_events(stream, name=path)
            for event in events:
                gathering.add_event(event)
        notes += _cut(path, events.cut_line)
    for path in errors:
        with open_lines(path) as stream:
            letters = JsonLines(stream, Letter.from_json, name=path)
            for letter in letters:
                gathering.add_dead_letter(letter)
        notes += _cut(path, letters.cut_line)
    return report_of(gathering, sources=[*traces, *errors], notes=notes)


def report_of(gathering: Gathering, *, sources: Sequence[str] = (), notes: Sequence[str] = ()) -> Report:
    """The report of what was gathered."""
    account, total = gathering.account, gathering.total
    return Report(
        sources=list(sources),
        notes=[*notes, *_notes(gathering)],
        currency=account.prices.currency,
        price_source=account.prices.source,
        first_ms=gathering.first_ms,
        last_ms=gathering.last_ms,
        calls=account.calls,
        answered=total.answered,
        stored=total.stored,
        failed=total.failed,
        requests=sum(account.of_class(spend).requests for spend in SpendClass),
        committed=gathering.activations.committed,
        dead_letters=gathering.activations.dead_letters,
        spent=account.spent,
        saved=account.saved_total,
        without_replay=account.without_replay,
        spend=[SpendRow(spend.value, account.of_class(spend)) for spend in SpendClass],
        models=[_model_row(gathering, model) for model in account.models],
        keys=[
            KeyRow(key_text(one.key), one.calls, one.tokens, one.money) for one in gathering.keys.heaviest(_SHOWN_KEYS)
        ],
        keys_exact=gathering.keys.exact,
        saved_by=[SavedRow(store, tally) for store, tally in sorted(account.saved.items())],
        durations=[
            _durations("calls that sent a request", gathering.latency),
            _durations("of that, waiting between requests", gathering.waiting),
            _durations("activations", gathering.activation_time),
        ],
        latency_bars=list(gathering.latency.bars()),
        slice_ms=gathering.timeline.width_ms,
        timeline=_points(gathering),
        circuits=_circuits(gathering),
        errors=gathering.errors.by_count(),
        failed_requests=gathering.failed_requests.by_count(),
        letters=gathering.letters.by_count(),
        schema_failures=gathering.schema_failures.by_count(),
        slowest=gathering.activations.slowest(),
        dearest=gathering.activations.dearest(),
    )


def _cut(path: str, line: int | None) -> list[str]:
    return [] if line is None else [f"{path}: line {line}, the last, is cut and was left out"]


def _notes(gathering: Gathering) -> list[str]:
    notes = []
    if gathering.other_events:
        notes.append(f"{gathering.other_events} event(s) of an unknown type were left out")
    if not gathering.keys.exact:
        notes.append("more than 4,096 keys: the table of keys shows the heaviest, their sums may be too low")
    unknown = gathering.account.spent.without_usage
    if unknown:
        notes.append(f"{unknown} paid answer(s) came without a token count; they are in no sum of tokens or money")
    return notes


def _model_row(gathering: Gathering, model: str) -> ModelRow:
    by_class = dict(gathering.account.of_model(model))
    answered = (SpendClass.BILLED, SpendClass.RECOVERED, SpendClass.DISCARDED)
    paid = Tally.total(by_class[spend] for spend in answered if spend in by_class)
    return ModelRow(
        model=model or "(unknown)",
        paid=paid,
        failed=by_class.get(SpendClass.FAILED, Tally()).requests,
        in_doubt=by_class.get(SpendClass.IN_DOUBT, Tally()).requests,
        priced=paid.without_price == 0,
    )


def _durations(what: str, values: Distribution) -> DurationRow:
    p50, p90, p95, p99 = (values.percentile(share) for share in (0.5, 0.9, 0.95, 0.99))
    return DurationRow(what, values.count, p50, p90, p95, p99, values.greatest if values.count else None, values.mean)


def _points(gathering: Gathering) -> list[SlicePoint]:
    return [
        SlicePoint(
            start_ms,
            one.answered,
            one.stored,
            one.failed,
            one.requests,
            one.tokens,
            one.latency.percentile(0.5),
            one.latency.percentile(0.95),
        )
        for start_ms, one in gathering.timeline
    ]


def _circuits(gathering: Gathering) -> list[CircuitRow]:
    return [
        CircuitRow(endpoint, timeline.width_ms, [(start_ms, dict(one.seen)) for start_ms, one in timeline])
        for endpoint, timeline in sorted(gathering.circuits.items())
    ]
