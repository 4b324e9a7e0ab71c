"""Journal URIs as people write them, passwords with every odd character included."""

from __future__ import annotations

import traceback
from pathlib import Path
from urllib.parse import quote

import pytest

from beam_agents.errors import JournalError, JournalOpenError
from beam_agents.journals import open_journal
from beam_agents.ports import CallIdentity, Intent
from tests.journals.servers import free_port

PASSWORDS = [f"hunt{odd}er2secret" for odd in ("", "/", "@", ":", "#", "?", "%", "%2", " ", "[", "]", "ü", "\n", "&=")]


def _everything(error: BaseException | None) -> str:
    said = "" if error is None else "".join(traceback.format_exception(error))
    return "\n".join(line for line in said.splitlines() if not line.startswith("    "))  # what is said, not the code


@pytest.mark.parametrize("scheme", ["redis", "postgresql", "nosuch"])
@pytest.mark.parametrize("written", [*PASSWORDS, *(quote(password, safe="") for password in PASSWORDS[1:])])
async def test_no_error_and_no_cause_of_one_shows_a_password(scheme: str, written: str) -> None:
    place = f"127.0.0.1:{free_port()}/0"
    for credentials, options in (
        (f"user:{written}@", ""),
        (f":{written}@", ""),
        (f"{written}@", ""),
        ("", f"?password={written}"),
    ):
        said = ""
        with pytest.raises(JournalError) as caught:  # noqa: PT012 - opening may raise, and so may the first use
            journal = open_journal(f"{scheme}://{credentials}{place}{options}")
            said = repr(journal)
            await journal.find(CallIdentity("c"))
        assert "er2secret" not in said + _everything(caught.value)


@pytest.mark.parametrize("uri", ["redis://u:a@b@h", "postgresql://u:a/b@h/db", "redis://h?password=a@b"])
def test_what_is_not_percent_encoded_is_refused_before_anything_reads_it(uri: str) -> None:
    with pytest.raises(JournalError, match="percent-encoded"):
        open_journal(uri)


@pytest.mark.parametrize(
    "option", ["lease_s=1e300", "lease_s=inf", "lease_s=nan", "lease_s=0", "ttl_h=-1", "ttl_h=nan"]
)
def test_a_lease_or_a_time_to_live_without_sense_is_refused(option: str) -> None:
    with pytest.raises(JournalOpenError, match=option.partition("=")[0]):
        open_journal(f"memory://odd?{option}")


@pytest.mark.parametrize("option", ["ttl_h=1e300", "ttl_h=inf", "ttl_h=0", "busy_ms=1e400", "max_mb=1e300"])
async def test_a_journal_opens_and_serves_with_extreme_options(tmp_path: Path, option: str) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.db?{option}")
    intent = await journal.begin(CallIdentity("c"))
    assert isinstance(intent, Intent)
    await journal.record_answer(intent, b"kept", None)
    await journal.aclose()


def test_a_path_with_a_null_byte_is_refused() -> None:
    with pytest.raises(JournalOpenError, match="names no file"):
        open_journal("sqlite:////tmp/%00.db")
