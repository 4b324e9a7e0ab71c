"""What every journal promises, whatever keeps it."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from dataclasses import replace

import pytest

from beam_agents.errors import JournalError
from beam_agents.ports import CallIdentity, Intent, JournaledAnswer, JournalFinding, PastAttempt
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
    fingerprint=(("messages[0].content", "ab12"),),
)
USAGE = TokenUsage(10, 5, 15, cached_tokens=3)
ANSWER = b'{"choices": []}'


def answer(response: bytes, ordinal: int) -> JournaledAnswer:
    return JournaledAnswer(response, hashlib.sha256(response).digest(), ordinal)


async def granted(journal, call: CallIdentity = CALL) -> Intent:
    intent = await journal.begin(call)
    assert isinstance(intent, Intent)
    return intent


async def test_an_unknown_call_is_unknown(opened: Open) -> None:
    assert await opened().find(CALL) == JournalFinding()


async def test_the_first_intent_has_ordinal_one_and_its_call(opened: Open) -> None:
    assert await opened().begin(CALL) == Intent(CALL, 1)


async def test_an_answer_is_found_with_its_digest_and_ordinal(opened: Open) -> None:
    journal = opened()
    await journal.record_answer(await granted(journal), ANSWER, USAGE)
    finding = await journal.find(CALL)
    assert finding == JournalFinding(answer(ANSWER, 1), (PastAttempt(1, "answered"),))


async def test_an_answer_outlives_the_opening_that_recorded_it(opened: Open) -> None:
    first = opened()
    await first.record_answer(await granted(first), ANSWER, USAGE)
    await first.aclose()
    assert (await opened().find(CALL)).answer == answer(ANSWER, 1)


@pytest.mark.parametrize("size", [0, 1, 300_000, 3_000_000])
async def test_answers_of_any_size_are_kept_whole(opened: Open, size: int) -> None:
    journal = opened()
    response = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    await journal.record_answer(await granted(journal), response, None)
    assert (await journal.find(CALL)).answer == answer(response, 1)


async def test_begin_gives_the_answer_instead_of_a_second_intent(opened: Open) -> None:
    journal = opened()
    await journal.record_answer(await granted(journal), ANSWER, USAGE)
    assert await opened("other").begin(CALL) == await journal.find(CALL)


async def test_a_failure_frees_the_call_and_the_ordinal_goes_on(opened: Open) -> None:
    journal = opened()
    await journal.record_failure(await granted(journal), "failed", "RateLimitError", 429)
    second = await granted(journal)
    await journal.record_failure(second, "in_doubt", "ProviderTimeout")
    assert second.ordinal == 2
    assert (await granted(journal)).ordinal == 3
    finding = await journal.find(CALL)
    assert finding.past == (
        PastAttempt(1, "failed", "RateLimitError", 429),
        PastAttempt(2, "in_doubt", "ProviderTimeout"),
    )
    assert finding.answer is None
    assert finding.busy_for_ms is not None


async def test_an_answer_after_failures_keeps_its_ordinal(opened: Open) -> None:
    journal = opened()
    await journal.record_failure(await granted(journal), "failed", "ServerError", 503)
    await journal.record_answer(await granted(journal), ANSWER, USAGE)
    finding = await journal.find(CALL)
    assert finding.answer == answer(ANSWER, 2)
    assert [attempt.outcome for attempt in finding.past] == ["failed", "answered"]


async def test_a_live_intent_of_the_same_owner_is_busy(opened: Open) -> None:
    await granted(opened())
    finding = await opened().begin(CALL)
    assert isinstance(finding, JournalFinding)
    assert finding.busy_for_ms is not None
    assert finding.busy_for_ms > 0
    assert finding.past == ()


async def test_a_live_intent_of_another_owner_is_busy_for_its_lease(opened: Open) -> None:
    await granted(opened("one"))
    finding = await opened("two").find(CALL)
    assert finding.busy_for_ms is not None
    assert 0 < finding.busy_for_ms <= 30_000


async def test_the_same_owner_stays_busy_when_its_lease_lapses(opened: Open, place: Place) -> None:
    journal = opened()
    await granted(journal)
    place.expire_leases()
    assert (await journal.find(CALL)).busy_for_ms is not None


async def test_an_expired_lease_makes_the_request_lost(opened: Open, place: Place) -> None:
    await granted(opened("one"))
    place.expire_leases()
    two = opened("two")
    lost = PastAttempt(1, "in_doubt", "Lost")
    assert await two.find(CALL) == JournalFinding(past=(lost,))
    assert await two.begin(CALL) == Intent(CALL, 2)
    assert (await two.find(CALL)).past == (lost,)
    assert lost.lost


async def test_closing_gives_up_the_lease(opened: Open) -> None:
    one = opened("one")
    await granted(one)
    await one.aclose()
    assert (await opened("two").find(CALL)).past == (PastAttempt(1, "in_doubt", "Lost"),)


async def test_a_late_answer_of_a_lost_request_stands_when_it_is_the_first(opened: Open, place: Place) -> None:
    one = opened("one")
    intent = await granted(one)
    place.expire_leases()
    two = opened("two")
    await two.record_failure(await granted(two), "failed", "ServerError", 500)
    await one.record_answer(intent, ANSWER, USAGE)
    finding = await two.find(CALL)
    assert finding.answer == answer(ANSWER, 1)
    assert finding.past == (PastAttempt(1, "answered"), PastAttempt(2, "failed", "ServerError", 500))


async def test_the_first_answer_of_a_call_stands(opened: Open, place: Place) -> None:
    one = opened("one")
    late = await granted(one)
    place.expire_leases()
    two = opened("two")
    assert await two.record_answer(await granted(two), b"first", USAGE) is None
    assert await one.record_answer(late, b"second", USAGE) == answer(b"first", 2)
    finding = await two.find(CALL)
    assert finding.answer == answer(b"first", 2)
    assert finding.past == (PastAttempt(1, "answered"), PastAttempt(2, "answered"))
    assert [attempt.usage for attempt in finding.past] == [USAGE, None]


async def test_recording_again_changes_nothing(opened: Open) -> None:
    journal = opened()
    failed = await granted(journal)
    await journal.record_failure(failed, "failed", "ServerError", 500)
    await journal.record_failure(failed, "in_doubt", "ProviderTimeout")
    answered = await granted(journal)
    await journal.record_answer(answered, ANSWER, USAGE)
    before = await journal.find(CALL)
    assert await journal.record_answer(answered, b"other", None) is None
    await journal.record_failure(answered, "failed", "ServerError", 500)
    assert await journal.find(CALL) == before
    assert before.past == (PastAttempt(1, "failed", "ServerError", 500), PastAttempt(2, "answered"))


async def test_a_request_whose_row_is_gone_can_still_be_answered(opened: Open) -> None:
    journal = opened()
    await journal.record_answer(Intent(CALL, 4), ANSWER, USAGE)
    assert (await journal.find(CALL)).answer == answer(ANSWER, 4)


async def test_scopes_and_calls_never_meet(opened: Open) -> None:
    journal = opened()
    await journal.record_answer(await granted(journal), ANSWER, USAGE)
    for other in (CallIdentity(CALL.call_id, scope="other"), CallIdentity("d" * 64, scope=CALL.scope)):
        assert await journal.find(other) == JournalFinding()
        assert (await granted(journal, other)).ordinal == 1


async def test_a_damaged_answer_is_no_answer_and_is_recorded(opened: Open, place: Place) -> None:
    journal = opened()
    await journal.record_answer(await granted(journal), ANSWER, USAGE)
    place.damage_answers()
    corrupt = PastAttempt(1, "answered", "Corrupt")
    assert await journal.find(CALL) == JournalFinding(past=(corrupt,))
    second = await granted(journal)
    assert second.ordinal == 2
    await journal.record_answer(second, b"again", USAGE)
    finding = await journal.find(CALL)
    assert finding == JournalFinding(answer(b"again", 2), (corrupt, PastAttempt(2, "answered")))


async def test_of_many_at_once_exactly_one_is_granted(opened: Open) -> None:
    journals = [opened(f"owner-{number}") for number in range(4)]
    outcomes = await asyncio.gather(*(journal.begin(CALL) for journal in journals for _ in range(25)))
    assert sum(isinstance(outcome, Intent) for outcome in outcomes) == 1


async def test_hundreds_in_flight_are_all_kept(opened: Open) -> None:
    journal = opened()
    calls = [CallIdentity(f"{number:064x}", seq=number, scope="s") for number in range(300)]

    async def run(call: CallIdentity) -> None:
        await journal.record_answer(await granted(journal, call), call.call_id.encode(), USAGE)

    await asyncio.gather(*(run(call) for call in calls))
    found = await asyncio.gather(*(journal.find(call) for call in calls))
    assert [finding.answer for finding in found] == [answer(call.call_id.encode(), 1) for call in calls]


async def test_an_intent_that_nobody_received_is_withdrawn(opened: Open) -> None:
    journal = opened()
    begun = asyncio.ensure_future(journal.begin(CALL))
    await asyncio.sleep(0)
    begun.cancel()
    (received,) = await asyncio.gather(begun, return_exceptions=True)
    other = CallIdentity("e" * 64)
    for _ in range(2):
        await journal.record_failure(await granted(journal, other), "failed", "ServerError")
    is_busy = (await journal.find(CALL)).busy_for_ms is not None
    assert is_busy == isinstance(received, Intent)


async def test_an_intent_on_its_way_to_a_cancelled_caller_is_withdrawn(opened: Open) -> None:
    journal = opened()
    await granted(journal, CallIdentity("d" * 64))  # what a first intent needs beside itself is done
    first, second = CallIdentity("e" * 64), CallIdentity("f" * 64)

    async def begin_then_cancel_the_other() -> None:
        await granted(journal, first)
        begun.cancel()  # both were written together, so its result is there and was not yet received

    beginning = asyncio.ensure_future(begin_then_cancel_the_other())
    begun = asyncio.ensure_future(journal.begin(second))
    await asyncio.wait((beginning, begun))
    await journal.record_failure(await granted(journal, CALL), "failed", "ServerError")
    is_busy = (await journal.find(second)).busy_for_ms is not None
    assert is_busy == (not begun.cancelled())


async def test_a_closed_journal_says_so(opened: Open) -> None:
    journal = opened()
    await journal.aclose()
    await journal.aclose()
    with pytest.raises(JournalError, match="closed"):
        await journal.find(CALL)
    with pytest.raises(JournalError, match="closed"):
        await journal.begin(CALL)


async def test_a_journal_is_not_pickled(opened: Open) -> None:
    with pytest.raises(TypeError, match="pass its URI"):
        pickle.dumps(opened())


async def test_record_failure_refuses_an_answer(opened: Open) -> None:
    journal = opened()
    with pytest.raises(ValueError, match="record_answer"):
        await journal.record_failure(Intent(CALL, 1), "answered", "")


async def test_other_calls_at_a_position_are_known_latest_first(opened: Open) -> None:
    journal = opened()
    await journal.record_failure(await granted(journal), "failed", "RateLimitError", 429)
    changed = replace(CALL, call_id="d" * 64, fingerprint=(("messages[0].content", "cd34"),))
    assert await journal.others_at(changed) == (CALL,)
    await journal.record_answer(await granted(journal, changed), ANSWER, USAGE)
    assert await journal.others_at(CALL) == (changed,)
    assert await journal.others_at(changed) == (CALL,)


async def test_answers_set_aside_serve_no_more_and_their_requests_stay(opened: Open) -> None:
    journal = opened()
    before = replace(CALL, call_id="b" * 64, step_index=1)
    step = replace(CALL, call_id="s" * 64, step_index=3, kind="step")
    failed = replace(CALL, call_id="f" * 64, step_index=4)
    for call in (before, CALL, step):
        await journal.record_answer(await granted(journal, call), ANSWER, USAGE)
    await journal.record_failure(await granted(journal, failed), "failed", "ServerError", 500)
    for _ in range(2):
        given_up = await journal.set_aside(replace(CALL, call_id=""))
        assert {(one.call.call_id, one.ordinal, one.usage) for one in given_up} == {
            (CALL.call_id, 1, USAGE),
            (step.call_id, 1, USAGE),
        }
    past = PastAttempt(1, "answered", "SetAside")
    assert past.set_aside
    assert await journal.find(CALL) == JournalFinding(past=(past,))
    assert (await journal.find(before)).answer == answer(ANSWER, 1)
    again = await granted(journal)
    assert again.ordinal == 2
    assert await journal.record_answer(again, b"again", None) is None
    assert (await journal.find(CALL)).answer == answer(b"again", 2)


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(CALL, call_id="e", scope="other"),
        replace(CALL, call_id="e", entity_key=b"other"),
        replace(CALL, call_id="e", seq=8),
        replace(CALL, call_id="e", step_index=3),
        replace(CALL, call_id="e", kind="step"),
    ],
)
async def test_calls_at_other_positions_are_no_others(opened: Open, elsewhere: CallIdentity) -> None:
    journal = opened()
    await journal.record_answer(await granted(journal, elsewhere), ANSWER, USAGE)
    assert await journal.others_at(CALL) == ()
