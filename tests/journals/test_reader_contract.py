"""What every journal shows its keeper."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest

from beam_agents.errors import JournalOpenError
from beam_agents.journals import (
    JournalRecord,
    PruneReport,
    RecordFilter,
    open_journal,
    open_reader,
    record_to_json,
    stats,
)
from beam_agents.journals.stored import StoredJournal
from beam_agents.ports import CallIdentity, Intent, JournalFinding
from beam_agents.values import TokenUsage
from tests.journals.backends import Place
from tests.journals.conftest import Open

CALL = CallIdentity(
    call_id="c" * 64,
    entity_key=b"\x00key\xff",
    seq=7,
    step_index=2,
    model_id="gpt-4o-mini",
    scope="ns/window",
    fingerprint=(("messages[0].content", "ab12"), ("model", "cd34")),
)
LATER = replace(CALL, call_id="d" * 64, step_index=3, fingerprint=())
ELSEWHERE = replace(CALL, call_id="e" * 64, seq=8, kind="step", model_id="")
USAGE = TokenUsage(10, 5, 15, cached_tokens=3)


async def begun(journal: StoredJournal, call: CallIdentity) -> Intent:
    intent = await journal.begin(call)
    assert isinstance(intent, Intent)
    return intent


@pytest.fixture
async def journal(opened: Open) -> StoredJournal:
    """One call with a failure and an answer, a later one in flight, and one elsewhere in doubt."""
    journal = opened("worker-1")
    await journal.record_failure(await begun(journal, CALL), "failed", "RateLimitError", 429)
    await journal.record_answer(await begun(journal, CALL), b"answer", USAGE)
    await begun(journal, LATER)
    await journal.record_failure(await begun(journal, ELSEWHERE), "in_doubt", "ProviderTimeout")
    return journal


async def records_of(place: Place, where: RecordFilter, *, answers: bool = False) -> list[JournalRecord]:
    reader = open_reader(place.uri, now_ms=place.clock)
    found = [record async for record in reader.records(where, answers=answers)]
    await reader.aclose()
    return sorted(found, key=lambda record: (record.call.call_id, record.ordinal))


async def test_records_tell_each_request(place: Place, journal: StoredJournal) -> None:
    first, second, waiting, in_doubt = await records_of(place, RecordFilter())
    assert (first.call, first.ordinal, first.outcome, first.error_type, first.status) == (
        *(CALL, 1, "failed", "RateLimitError"),
        429,
    )
    assert (second.attempt_id, second.outcome, second.usage) == (f"{CALL.call_id}:2", "answered", USAGE)
    assert (second.stored_bytes, second.sealed, second.response) == (6, False, None)
    assert (waiting.call, waiting.outcome, waiting.ended_ms) == (LATER, "waiting", None)
    assert (in_doubt.call, in_doubt.outcome, in_doubt.error_type) == (ELSEWHERE, "in_doubt", "ProviderTimeout")
    assert {record.owner for record in (first, second, waiting, in_doubt)} == {"worker-1"}
    assert second.ended_ms is not None
    assert 0 < second.began_ms <= second.ended_ms


async def test_answers_come_when_asked_for(place: Place, journal: StoredJournal) -> None:
    records = await records_of(place, RecordFilter(), answers=True)
    assert [record.response for record in records] == [None, b"answer", None, None]


async def test_a_damaged_answer_is_shown_as_corrupt(place: Place, journal: StoredJournal) -> None:
    place.damage_answers()
    record = (await records_of(place, RecordFilter(), answers=True))[1]
    assert (record.outcome, record.error_type, record.response) == ("answered", "Corrupt", None)


async def test_an_intent_of_a_dead_owner_is_shown_as_lost(place: Place, journal: StoredJournal) -> None:
    place.expire_leases()
    record = (await records_of(place, RecordFilter(call_id=LATER.call_id)))[0]
    assert (record.outcome, record.error_type) == ("in_doubt", "Lost")


@pytest.mark.parametrize(
    ("where", "calls"),
    [
        (RecordFilter(scope="ns/window"), [CALL, CALL, LATER, ELSEWHERE]),
        (RecordFilter(scope="other"), []),
        (RecordFilter(call_id="ccc"), [CALL, CALL]),
        (RecordFilter(entity_key=CALL.entity_key, seq=8), [ELSEWHERE]),
        (RecordFilter(scope=CALL.scope, entity_key=CALL.entity_key, seq=7), [CALL, CALL, LATER]),
        (RecordFilter(scope=CALL.scope, entity_key=CALL.entity_key, seq=7, from_step=3), [LATER]),
        (RecordFilter(scope=CALL.scope, entity_key=b"other", seq=7), []),
    ],
)
async def test_filters_mean_the_same_everywhere(
    place: Place, journal: StoredJournal, where: RecordFilter, calls: list[CallIdentity]
) -> None:
    assert [record.call for record in await records_of(place, where)] == calls


async def test_more_records_than_a_page(place: Place, opened: Open) -> None:
    journal = opened()
    for number in range(1203):
        await begun(journal, CallIdentity(f"{number:064x}", scope=f"s{number % 3}"))
    records = await records_of(place, RecordFilter())
    assert [record.call.call_id for record in records] == [f"{number:064x}" for number in range(1203)]


async def test_history_is_what_was_asked_at_a_position(journal: StoredJournal) -> None:
    history = await journal.history(CALL.scope, CALL.entity_key, CALL.seq)
    assert sorted((record.call.call_id[0], record.ordinal) for record in history) == [("c", 1), ("c", 2), ("d", 1)]
    assert {record.call.fingerprint for record in history} == {CALL.fingerprint, ()}
    assert await journal.history("other", CALL.entity_key, CALL.seq) == ()


async def test_forgotten_calls_start_anew(journal: StoredJournal) -> None:
    where = RecordFilter(scope=CALL.scope, entity_key=CALL.entity_key, seq=7)
    assert await journal.forget(where) == PruneReport(calls=2, attempts=3)
    assert await journal.find(CALL) == JournalFinding()
    assert (await journal.find(ELSEWHERE)).past != ()
    assert await journal.begin(CALL) == Intent(CALL, 1)


async def test_pruning_keeps_the_young_and_the_living(place: Place, journal: StoredJournal) -> None:
    reader = open_reader(place.uri, now_ms=place.clock)
    newest = max([record.ended_ms or record.began_ms async for record in reader.records()])
    assert await reader.prune(before_ms=1) == PruneReport()
    assert await reader.prune(before_ms=newest + 1) == PruneReport(calls=2, attempts=3)
    assert [record.call async for record in reader.records()] == [LATER]
    await reader.aclose()


async def test_stats_count_every_request_once(place: Place, journal: StoredJournal) -> None:
    reader = open_reader(place.uri, now_ms=place.clock)
    found = await stats(reader)
    total = found.total
    assert found.calls == 3
    assert (total.attempts, total.answered, total.failed, total.in_doubt, total.waiting) == (4, 1, 1, 1, 1)
    assert (total.usage, total.usage_unknown, total.stored_bytes) == (USAGE, 0, 6)
    assert [(scope, kind, model, tally.attempts) for scope, kind, model, tally in found.by_model] == [
        ("ns/window", "call", "gpt-4o-mini", 3),
        ("ns/window", "step", "", 1),
    ]
    assert found.size_bytes > 0
    assert found.oldest_ms is not None
    assert found.newest_ms is not None
    assert found.oldest_ms <= found.newest_ms
    await reader.aclose()


async def test_a_record_is_a_line_of_json(place: Place, journal: StoredJournal) -> None:
    records = await records_of(place, RecordFilter(call_id="c"), answers=True)
    failed, answered = (json.loads(record_to_json(record)) for record in records)
    assert (failed["error_type"], failed["status"], failed["usage"]) == ("RateLimitError", 429, None)
    assert (answered["attempt_id"], answered["entity_key"]) == (f"{CALL.call_id}:2", "006b6579ff")
    assert (answered["response"], answered["usage"]["total_tokens"]) == ("answer", 15)
    assert answered["fingerprint"] == {"messages[0].content": "ab12", "model": "cd34"}
    assert "response" not in failed


async def test_a_reader_makes_no_journal(place: Place) -> None:
    with pytest.raises(JournalOpenError, match=r"no such journal|there is no journal"):
        await read_twice(place)
    with pytest.raises(JournalOpenError):
        await read_twice(place)
    journal = open_journal(place.uri, now_ms=place.clock)
    assert await journal.find(CALL) == JournalFinding()
    await journal.aclose()


async def read_twice(place: Place) -> None:
    reader = open_reader(place.uri)
    try:
        with contextlib.suppress(JournalOpenError):
            _ = [record async for record in reader.records()]
        _ = [record async for record in reader.records()]
    finally:
        await reader.aclose()


async def test_a_reader_serves_beside_an_open_journal(place: Place, opened: Open) -> None:
    journal = opened()
    await begun(journal, CALL)
    assert len(await records_of(place, RecordFilter())) == 1
    await journal.record_answer(Intent(CALL, 1), b"answer", None)
    assert [record.outcome for record in await records_of(place, RecordFilter())] == ["answered"]
