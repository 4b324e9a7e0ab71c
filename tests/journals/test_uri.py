"""Journal URIs as people write them, passwords with every odd character included."""

from __future__ import annotations

import traceback
from urllib.parse import quote

import pytest

from beam_agents.errors import JournalError
from beam_agents.journals import open_journal
from beam_agents.ports import CallIdentity
from tests.journals.servers import free_port

PASSWORDS = [f"hunt{odd}er2secret" for odd in ("", "/", "@", ":", "#", "?", "%", "%2", " ", "[", "]", "ü", "\n", "&=")]


def _everything(error: BaseException | None) -> str:
    said = "" if error is None else "".join(traceback.format_exception(error))
    return "\n".join(line for line in said.splitlines() if not line.startswith("    "))  # what is said, not the code


@pytest.mark.parametrize("scheme", ["redis", "rediss", "postgresql", "postgres", "nosuch"])
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
