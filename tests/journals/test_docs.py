"""The page on journals names the options that there are, with their defaults."""

from __future__ import annotations

import re

import pytest

from beam_agents.errors import JournalOpenError
from beam_agents.journals import open_journal
from beam_agents.journals.postgresql.link import OPTIONS as POSTGRESQL_OPTIONS
from beam_agents.journals.redis.link import OPTIONS as REDIS_OPTIONS
from beam_agents.journals.uri import JournalUri
from tests.journals.processes import ROOT

PAGE = (ROOT / "docs" / "journals.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| (all|[\w, ]+) \| `?([^|`]+)`? \|", PAGE, flags=re.MULTILINE)


def documented(scheme: str) -> set[str]:
    return {name for name, backends, _ in ROWS if backends in ("all", scheme)}


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
def test_the_options_are_those_that_are_accepted(scheme: str) -> None:
    with pytest.raises(JournalOpenError) as caught:
        open_journal(f"{scheme}:///x?no_such_option=1")
    accepted = str(caught.value).rpartition(" knows ")[2].split(", ")
    assert set(accepted) == documented(scheme)


def test_the_options_of_servers_are_those_that_are_ours() -> None:
    assert set(REDIS_OPTIONS) == documented("redis")
    assert set(POSTGRESQL_OPTIONS) == documented("postgresql")


def test_the_defaults_are_those_that_are_told() -> None:
    told = {name: default.split()[0] for name, _, default in ROWS}
    terms = JournalUri.parse("memory://").terms()
    assert terms.ttl_ms == int(told["ttl_h"]) * 3_600_000
    assert terms.lease_ms == int(told["lease_s"]) * 1000
