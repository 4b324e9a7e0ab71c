"""A journal file is closed whole, also where the interpreter is ending."""

from __future__ import annotations

import asyncio
from pathlib import Path

from beam_agents.journals import open_journal
from beam_agents.ports import CallIdentity, Intent

CALL = CallIdentity("c" * 64)


async def test_a_journal_closes_where_no_thread_can_be_started_any_more(tmp_path: Path) -> None:
    journals = [open_journal(f"sqlite:///{tmp_path}/{n}.db") for n in range(20)]
    for journal in journals:
        assert isinstance(await journal.begin(CALL), Intent)
    await asyncio.get_running_loop().shutdown_default_executor()
    for journal in journals:
        await journal.aclose()
    for n in range(20):
        reopened = open_journal(f"sqlite:///{tmp_path}/{n}.db")
        assert [one.lost for one in (await reopened.find(CALL)).past] == [True]
        await reopened.aclose()
