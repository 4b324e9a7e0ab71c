"""What is kept for how long, and that the file gives room back."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_agents.journals import PruneReport, open_journal, open_reader
from beam_agents.journals.stored import StoredJournal
from beam_agents.ports import CallIdentity, Intent, JournalFinding
from beam_agents.testing import ManualClock

HOUR_MS = 3_600_000


async def answered(journal: StoredJournal, call_id: str, size: int = 10) -> None:
    intent = await journal.begin(CallIdentity(call_id))
    assert isinstance(intent, Intent)
    await journal.record_answer(intent, bytes(size), None)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


async def knows(journal: StoredJournal, call_id: str) -> bool:
    return await journal.find(CallIdentity(call_id)) != JournalFinding()


@pytest.mark.parametrize("uri", ["memory://retention", "sqlite:///{tmp_path}/journal.db"])
async def test_calls_are_forgotten_after_their_time_to_live(uri: str, tmp_path: Path, clock: ManualClock) -> None:
    journal = open_journal(uri.format(tmp_path=tmp_path) + "?ttl_h=2", now_ms=clock)
    await answered(journal, "old")
    clock.advance(HOUR_MS)
    await answered(journal, "young")
    clock.advance(HOUR_MS + 1)
    await answered(journal, "new")
    assert [await knows(journal, call_id) for call_id in ("old", "young", "new")] == [False, True, True]
    await journal.aclose()


@pytest.mark.parametrize("uri", ["memory://retention", "sqlite:///{tmp_path}/journal.db"])
async def test_a_week_is_kept_by_default_and_everything_on_request(
    uri: str, tmp_path: Path, clock: ManualClock
) -> None:
    uri = uri.format(tmp_path=tmp_path)
    journal = open_journal(uri, now_ms=clock)
    await answered(journal, "old")
    clock.advance(7 * 24 * HOUR_MS)
    await answered(journal, "newer")
    assert await knows(journal, "old")
    await journal.aclose()
    clock.advance(1)
    journal = open_journal(f"{uri}?ttl_h=inf", now_ms=clock)
    await answered(journal, "newest")
    assert await knows(journal, "old")
    await journal.aclose()
    clock.advance(24 * HOUR_MS)
    journal = open_journal(uri, now_ms=clock)
    await answered(journal, "last")
    clock.advance(24 * HOUR_MS)
    await answered(journal, "very last")
    assert not await knows(journal, "old")
    await journal.aclose()


async def test_a_call_with_a_recent_attempt_is_kept_whole(tmp_path: Path, clock: ManualClock) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.db?ttl_h=2", now_ms=clock)
    first = await journal.begin(CallIdentity("revived"))
    assert isinstance(first, Intent)
    await journal.record_failure(first, "failed", "ServerError", 500)
    clock.advance(HOUR_MS)
    await answered(journal, "revived")
    clock.advance(HOUR_MS + 1)
    await answered(journal, "other")
    finding = await journal.find(CallIdentity("revived"))
    assert [attempt.ordinal for attempt in finding.past] == [1, 2]
    await journal.aclose()


async def test_many_old_calls_go_some_at_a_time(tmp_path: Path, clock: ManualClock) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.db?ttl_h=1", now_ms=clock)
    for number in range(1_100):
        await answered(journal, f"old {number}")
    left = []
    for number in range(4):
        clock.advance(HOUR_MS + 1)
        await answered(journal, f"beat {number}")
        reader = open_reader(f"sqlite:///{tmp_path}/journal.db", now_ms=clock)
        left.append(len([record async for record in reader.records()]))
        await reader.aclose()
    assert left[0] in range(500, 1_101)
    assert left[-1] == 1
    await journal.aclose()


async def test_pruning_gives_room_back_to_the_disk(tmp_path: Path, clock: ManualClock) -> None:
    uri = f"sqlite:///{tmp_path}/journal.db"
    journal = open_journal(uri, now_ms=clock)
    for number in range(50):
        await answered(journal, f"old {number}", size=100_000)
    await journal.aclose()
    reader = open_reader(uri, now_ms=clock)
    before = await reader.size_bytes()
    clock.advance(1)
    assert await reader.prune(before_ms=clock()) == PruneReport(calls=50, attempts=50)
    assert before > 5_000_000
    assert await reader.size_bytes() < 200_000
    await reader.aclose()
