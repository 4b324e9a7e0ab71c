"""Answers at rest under a key from the environment."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from beam_agents.errors import JournalError, JournalOpenError
from beam_agents.journals import JournalRecord, open_journal, open_reader
from beam_agents.journals.stored import StoredJournal
from beam_agents.ports import CallIdentity, Intent, PastAttempt
from tests.journals.backends import Place
from tests.journals.conftest import Open

CALL = CallIdentity("c" * 64, scope="s")
SECRET = b'{"content": "the patient is well"}'


def key(number: int) -> str:
    return base64.urlsafe_b64encode(bytes([number]) * 32).decode()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_ONE", key(1))
    monkeypatch.setenv("KEY_TWO", key(2))
    monkeypatch.setenv("SHORT_KEY", base64.b64encode(b"short").decode())
    monkeypatch.setenv("NO_KEY", "not base64!")


def sealed(place: Place, names: str) -> StoredJournal:
    separator = "&" if "?" in place.uri else "?"
    return open_journal(f"{place.uri}{separator}key_env={names}", now_ms=place.clock)


async def record(journal: StoredJournal, call: CallIdentity = CALL) -> None:
    intent = await journal.begin(call)
    assert isinstance(intent, Intent)
    await journal.record_answer(intent, SECRET, None)


async def test_a_sealed_answer_comes_back_with_the_key(place: Place) -> None:
    journal = sealed(place, "KEY_ONE")
    await record(journal)
    await journal.aclose()
    journal = sealed(place, "KEY_ONE")
    answer = (await journal.find(CALL)).answer
    assert answer is not None
    assert answer.response == SECRET
    await journal.aclose()


async def test_a_sealed_journal_does_not_open_without_its_key_or_with_another(place: Place) -> None:
    journal = sealed(place, "KEY_ONE")
    await record(journal)
    await journal.aclose()
    for names, said in (("", "no key was given"), ("KEY_TWO", "only")):
        with pytest.raises(JournalError, match=said) as caught:
            await opened_and_asked(place, names)
        assert "key_env" in str(caught.value)
        assert key(1) not in str(caught.value)


async def opened_and_asked(place: Place, names: str) -> None:
    journal = sealed(place, names)
    try:
        await journal.find(CALL)
    finally:
        await journal.aclose()


async def test_the_first_key_seals_and_the_others_open(place: Place) -> None:
    other = CallIdentity("d" * 64, scope="s")
    journal = sealed(place, "KEY_ONE")
    await record(journal)
    await journal.aclose()
    journal = sealed(place, "KEY_TWO,KEY_ONE")
    assert (await journal.find(CALL)).answer is not None
    await record(journal, other)
    await journal.aclose()
    journal = sealed(place, "KEY_TWO")
    assert (await journal.find(other)).answer is not None
    with pytest.raises(JournalError, match="answers are sealed with key"):
        await journal.find(CALL)
    await journal.aclose()


async def test_answers_from_before_the_key_are_still_read(place: Place, opened: Open) -> None:
    await record(opened())
    journal = sealed(place, "KEY_ONE")
    assert (await journal.find(CALL)).answer is not None
    await journal.aclose()


async def test_a_damaged_sealed_answer_is_no_answer(place: Place) -> None:
    journal = sealed(place, "KEY_ONE")
    await record(journal)
    place.damage_answers()
    finding = await journal.find(CALL)
    assert finding.answer is None
    assert finding.past == (PastAttempt(1, "answered", "Corrupt"),)
    await journal.aclose()


async def test_the_keeper_needs_the_key_for_answers_only(place: Place) -> None:
    journal = sealed(place, "KEY_ONE")
    await record(journal)
    (counted,) = await found_with(place, "", answers=False)
    assert (counted.sealed, counted.response) == (True, None)
    with pytest.raises(JournalError, match="answers are sealed with key"):
        await found_with(place, "", answers=True)
    (opened,) = await found_with(place, "KEY_ONE", answers=True)
    assert opened.response == SECRET
    await journal.aclose()


async def found_with(place: Place, names: str, *, answers: bool) -> list[JournalRecord]:
    separator = "&" if "?" in place.uri else "?"
    reader = open_reader(f"{place.uri}{separator}key_env={names}", now_ms=place.clock)
    try:
        return [record async for record in reader.records(answers=answers)]
    finally:
        await reader.aclose()


async def test_nothing_of_a_sealed_answer_is_on_disk(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path / 'journal.db'}?key_env=KEY_ONE")
    await record(journal)
    on_disk = b"".join(files_in(tmp_path))
    await journal.aclose()
    on_disk += b"".join(files_in(tmp_path))
    assert CALL.call_id.encode() in on_disk
    assert b"patient" not in on_disk
    assert bytes([1]) * 32 not in on_disk


def files_in(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.iterdir()]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("UNSET_KEY", "UNSET_KEY, named by key_env, is not set"),
        ("SHORT_KEY", "SHORT_KEY does not hold the url-safe base64 of 32 bytes"),
        ("NO_KEY", "NO_KEY does not hold the url-safe base64 of 32 bytes"),
    ],
)
def test_what_is_no_key(name: str, said: str) -> None:
    with pytest.raises(JournalOpenError) as caught:
        open_journal(f"memory://?key_env={name}")
    assert said in str(caught.value)
    assert "not base64!" not in str(caught.value)
    assert "make a key with" in str(caught.value)


async def test_an_answer_whose_key_was_dropped_is_neither_read_nor_paid_again(place: Place) -> None:
    for names, call in (("KEY_ONE", CALL), ("KEY_TWO,KEY_ONE", CallIdentity("d" * 64, scope="s"))):
        journal = sealed(place, names)
        await record(journal, call)
        await journal.aclose()
    journal = sealed(place, "KEY_TWO")
    for asked in (journal.find, journal.begin):
        with pytest.raises(JournalError, match="sealed with key"):
            await asked(CALL)
    await journal.aclose()
    journal = sealed(place, "KEY_TWO,KEY_ONE")
    assert (await journal.find(CALL)).answer is not None
    await journal.aclose()
