"""From files to a report, and to its formats."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest

from beam_agents.exporters.jsonl import EventWriter, JsonLineError
from beam_agents.report.activations import Activations
from beam_agents.report.as_html import comparison_html, report_html
from beam_agents.report.as_json import report_json
from beam_agents.report.as_markdown import comparison_markdown, report_markdown
from beam_agents.report.build import build_report, report_of
from beam_agents.report.call_facts import CallFacts
from beam_agents.report.contents import Report
from beam_agents.report.dead_letters import Letter
from beam_agents.report.gather import Gathering
from beam_agents.report.headline import headline
from beam_agents.report.tally import Paid
from beam_agents.report.words import duration_text, money_text
from tests.report.events import activation, attempt, call, dead_letter, sample_letters, sample_report, sample_run

NASTY = "</script><img src=x onerror=alert(1)>&{title}|`*"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    traces, errors = tmp_path / "traces.jsonl", tmp_path / "errors.jsonl"
    writer = EventWriter.to_path(str(traces))
    writer.export(sample_run())
    writer.close()
    errors.write_bytes(b"".join(orjson.dumps(letter) + b"\n" for letter in sample_letters()))
    return traces, errors


def gathered(*events: object, letters: tuple[dict[str, object], ...] = ()) -> Report:
    gathering = Gathering()
    for event in events:
        gathering.add_event(event)  # type: ignore[arg-type]
    for letter in letters:
        gathering.add_dead_letter(Letter.from_json(letter))
    return report_of(gathering)


def test_files_and_live_events_come_to_the_same_report(files: tuple[Path, Path]) -> None:
    read = json.loads(report_json(build_report([str(files[0])], [str(files[1])])))
    live = json.loads(report_json(sample_report()))
    del read["sources"], live["sources"]
    assert read == live


def test_a_gzip_file_comes_to_the_same_report(files: tuple[Path, Path], tmp_path: Path) -> None:
    packed = tmp_path / "packed.jsonl"
    packed.write_bytes(gzip.compress(files[0].read_bytes()))
    assert build_report([str(packed)]).spent == build_report([str(files[0])]).spent


def test_a_cut_last_line_is_noted(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(files[0].read_bytes()[:-30])
    assert any("the last, is cut" in note for note in build_report([str(files[0])]).notes)


def test_a_file_of_events_given_as_errors_says_so(files: tuple[Path, Path]) -> None:
    with pytest.raises(JsonLineError, match="is this a file of errors"):
        build_report([], [str(files[0])])


def test_requests_add_up() -> None:
    report = sample_report()
    assert report.requests == sum(row.tally.requests for row in report.spend)
    assert report.calls == report.answered + report.stored + report.failed
    assert report.calls == sum(point.answered + point.stored + point.failed for point in report.timeline)
    assert sum(count for *_, count in report.latency_bars) == report.durations[0].count
    (activations,) = [row.count for row in report.durations if row.what == "activations"]
    assert activations == report.committed + report.dead_letters


def test_nothing_at_all_is_a_report_too() -> None:
    report = gathered()
    assert [answer for _, answer in headline(report)] == [
        "0 calls: 0 answered, 0 from a store.",
        "$0.00 (0 tokens).",
        "The same: no call was answered from a store.",
    ]
    assert "No calls." in report_html(report)
    assert report_markdown(report).startswith("# beam-agents report")


def test_the_headline_tells_what_happened_what_it_cost_and_what_it_would_have_cost() -> None:
    happened, cost, otherwise = headline(sample_report())
    said = " ".join((*happened, *cost, *otherwise))
    for part in (
        "in 412 activations",
        "12 activations (3%) became dead letters",
        "are in doubt",
        "104 answers from a store",
    ):
        assert part in said


def test_a_model_without_a_price_is_named() -> None:
    report = gathered(call(model="house-model"))
    assert report.unpriced_models == ["house-model"]
    assert any("No price is known for house-model" in answer for _, answer in headline(report))
    assert "no price known" in report_markdown(report)


def test_what_a_request_in_doubt_cost_is_unknown_and_not_nothing() -> None:
    report = gathered(call(log=(attempt("x:1", "in_doubt", "ProviderTimeout", None),)))
    row = next(line for line in report_markdown(report).splitlines() if line.startswith("| in doubt"))
    assert row.startswith("| in doubt | 1 | – | – |")


def test_the_slowest_activation_holds_its_calls_in_any_order() -> None:
    slow = [call(step=0, took_ms=9_000), activation(took_ms=9_100), call(step=1, replay="journal", billed=False)]
    report = gathered(call(seq=1), slow[1], slow[2], slow[0], activation(seq=1))
    first = report.slowest[0]
    assert (first.seq, first.duration_ms, first.calls, first.outcome) == (0, 9_100, 2, "committed")
    assert sorted(bar.outcome for bar in first.bars) == ["answered", "replayed (journal)"]


def test_the_dearest_activation_is_the_one_that_paid_most() -> None:
    report = gathered(
        call(seq=0, tokens=(10, 1)), call(seq=1, tokens=(9_000, 900)), call(seq=2, billed=False, replay="journal")
    )
    assert [one.seq for one in report.dearest] == [1, 0]


def test_open_activations_are_bounded_and_none_is_lost() -> None:
    activations = Activations(keep=3, open_at_once=10)
    for seq in range(100):
        activations.add_call(CallFacts.of(call(seq=seq, took_ms=1_000 + seq)), Paid())
    assert [one.seq for one in activations.slowest()] == [99, 98, 97]


def test_a_dead_letter_is_counted_once_and_marks_its_activation() -> None:
    letter = dead_letter(call(error="OutputSchemaError"), reason="truncated")
    report = gathered(activation(outcome="dead_letter"), letters=(letter,))
    assert (report.dead_letters, report.committed) == (1, 0)
    assert report.slowest[0].outcome == "dead_letter"
    assert report.letters[0].kind == "OutputSchemaError (truncated)"
    assert report.letters[0].example["message"] == "OutputSchemaError happened"


def test_a_dead_letter_never_shows_its_event() -> None:
    report = gathered(letters=(dead_letter(call(), event={"secret": "the prompt"}),))
    assert "the prompt" not in report_json(report) + report_markdown(report) + report_html(report)


def test_a_failed_request_told_twice_counts_once() -> None:
    log = (attempt("x:1", "failed"),)
    report = gathered(call(log=log), call(log=log, replay="journal", billed=False))
    assert [(one.kind, one.count) for one in report.failed_requests] == [("ServerError 503", 1)]


def test_the_json_is_exact_and_readable() -> None:
    told = json.loads(report_json(gathered(call(tokens=(100, 20)))))
    assert Decimal(told["spent"]["money"]) == Decimal("0.000027")
    assert told["slowest"][0]["entity_key"] == "k"


def test_two_runs_side_by_side_show_the_change() -> None:
    text = comparison_markdown(gathered(call()), gathered(call(), call(seq=1), call(seq=2)))
    assert "| calls | 1 | 3 | +200% |" in text
    assert "| dead letters | 0 | 0 | same |" in text


class Texts(HTMLParser):
    """Collects the tags and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page(html: str) -> Texts:
    read = Texts()
    read.feed(html)
    return read


def test_texts_from_a_trace_are_never_markup() -> None:
    nasty = call(key=NASTY, model=NASTY, error=NASTY, endpoint=(NASTY, "1"))
    report = gathered(nasty, activation(key=NASTY), letters=(dead_letter(nasty, error=NASTY, message=NASTY),))
    read = page(report_html(report, title=NASTY))
    assert "img" not in read.tags
    assert read.tags.count("script") == 3
    assert any(NASTY in text for text in read.texts)
    figures = re.search(r'id="figures">(.*?)</script>', report_html(report), re.DOTALL)
    assert figures is not None
    assert "<img" not in figures[1]
    assert json.loads(figures[1])


def test_a_table_row_of_markdown_stays_one_row() -> None:
    report = gathered(call(model="a|b\n| c |", error="x"))
    row = next(line for line in report_markdown(report).splitlines() if line.startswith("| a\\|b"))
    assert row.count(" | ") == 8


def test_the_page_asks_no_server_for_anything() -> None:
    html = report_html(sample_report())
    assert "default-src 'none'" in html
    assert all(link.startswith(("#", "data:")) for link in page(html).links)


def test_the_page_has_every_section_and_charts_for_them() -> None:
    html = report_html(sample_report())
    anchors = re.findall(r'<section id="([a-z-]+)"', html)
    assert anchors == [
        "spend", "saved", "models", "over-time", "latency", "circuits", "errors", "requests", "letters", "schema",
        "keys", "slowest", "dearest", "notes",
    ]  # fmt: skip
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    assert {"spend", "over-time", "latency-over-time", "latency", "circuits", "slowest-0", "dearest-0"} <= set(figures)


def test_two_runs_have_a_page() -> None:
    html = comparison_html(sample_report(), gathered(call()))
    assert re.findall(r'<section id="([a-z-]+)"', html) == ["runs", "compare", "compare-spend", "compare-latency"]


@pytest.mark.parametrize("module", ["account", "money", "build", "as_markdown", "as_json", "as_html"])
def test_only_the_charts_need_plotly_and_nothing_needs_beam(module: str) -> None:
    code = (
        f"import sys, beam_agents.report.{module}\n"
        "assert not {'plotly', 'apache_beam', 'opentelemetry.sdk'} & set(sys.modules), sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": "src"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "$0.00"), ("0.1", "$0.10"), ("1234.567", "$1,234.57"), ("0.0123", "$0.012"), ("0.00001", "$0.000010")],
)
def test_money_reads_as_money_and_small_amounts_are_not_nothing(amount: str, text: str) -> None:
    assert money_text(Decimal(amount)) == text
    assert money_text(Decimal(amount), "CHF").endswith(" CHF")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, "–"), (0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (75_000, "1 min 15 s"), (7_380_000, "2 h 3 min")],
)
def test_durations_read_as_people_say_them(ms: float | None, text: str) -> None:
    assert duration_text(ms) == text
