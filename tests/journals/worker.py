"""A process of its own that uses a journal: `python -m tests.journals.worker ACTION URI`.

`begin` begins one fixed call as soon as a line arrives on standard input and says `granted` or `busy`; it then
holds on until its standard input ends. `burst` records many answers and says each that is durable, until killed.
"""

from __future__ import annotations

import asyncio
import sys

from beam_agents.journals import open_journal
from beam_agents.ports import CallIdentity, Intent

CALL = CallIdentity("f" * 64, scope="processes")


def burst_call(number: int) -> CallIdentity:
    return CallIdentity(f"{number:064x}", scope="burst")


async def begin(uri: str) -> None:
    journal = open_journal(uri)
    print("ready", flush=True)
    sys.stdin.readline()
    outcome = await journal.begin(CALL)
    print("granted" if isinstance(outcome, Intent) else "busy", flush=True)
    sys.stdin.readline()
    await journal.aclose()


async def burst(uri: str) -> None:
    journal = open_journal(uri)

    async def one(number: int) -> None:
        intent = await journal.begin(burst_call(number))
        assert isinstance(intent, Intent)
        await journal.record_answer(intent, b"answer %d" % number, None)
        print(number, flush=True)

    for start in range(0, 100_000, 50):
        await asyncio.gather(*(one(number) for number in range(start, start + 50)))


async def abandon(uri: str) -> None:
    journal = open_journal(uri)
    await journal.begin(CALL)


if __name__ == "__main__":
    asyncio.run({"begin": begin, "burst": burst, "abandon": abandon}[sys.argv[1]](sys.argv[2]))
