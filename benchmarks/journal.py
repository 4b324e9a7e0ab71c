"""What a journal costs: `python benchmarks/journal.py URI [CALLS] [IN_FLIGHT]`.

Prints, for each call (intent and an answer of 1,500 bytes), time and this process's CPU, and the same for a lookup.
For `sqlite:///` it also prints the CPU of two bare statements a call, in one transaction for all calls in flight.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from beam_agents.journals import StoredJournal, open_journal
from beam_agents.journals.sqlite import statements
from beam_agents.journals.sqlite.schema import SqliteFile, transaction
from beam_agents.journals.uri import JournalUri
from beam_agents.ports import CallIdentity, Intent
from beam_agents.values import TokenUsage

ANSWER = b"x" * 1_500
USAGE = TokenUsage(100, 50, 150)
_BARE_ANSWER = "UPDATE attempts SET state = 'answered', response = ? WHERE scope = ? AND call_id = ? AND ordinal = 1"


def identities(count: int, scope: str) -> list[CallIdentity]:
    return [
        CallIdentity(
            hashlib.sha256(b"%d" % number).hexdigest(),
            entity_key=b"key %d" % (number % 500),
            seq=number // 500,
            model_id="model",
            scope=scope,
        )
        for number in range(count)
    ]


async def work(journal: StoredJournal, calls: Iterator[CallIdentity]) -> None:
    for call in calls:
        intent = await journal.begin(call)
        assert isinstance(intent, Intent)
        await journal.record_answer(intent, ANSWER, USAGE)


async def look_up(journal: StoredJournal, calls: list[CallIdentity]) -> None:
    for call in calls:
        assert (await journal.find(call)).answer is not None


async def measure(uri: str, count: int, in_flight: int) -> None:
    journal = open_journal(uri)
    calls = identities(count, f"run {time.time_ns()}")
    left = iter(calls)
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work(journal, left) for _ in range(in_flight)))
    report("intent and answer", count, time.perf_counter() - started, time.process_time() - cpu)
    started, cpu = time.perf_counter(), time.process_time()
    await look_up(journal, calls[: min(count, 5_000)])
    report("lookup, one at a time", min(count, 5_000), time.perf_counter() - started, time.process_time() - cpu)
    await journal.aclose()


def bare_sqlite(count: int, in_flight: int) -> None:
    calls = identities(count, "bare")
    with tempfile.TemporaryDirectory() as directory:
        connection = SqliteFile.of(JournalUri.parse(f"sqlite:///{Path(directory)}/bare.db")).prepare()
        started, cpu = time.perf_counter(), time.process_time()
        for start in range(0, count, in_flight):
            with transaction(connection):
                for call in calls[start : start + in_flight]:
                    statements.insert_intent(connection, call, 1, ("session", "owner"), 1)
                    connection.execute(_BARE_ANSWER, (ANSWER, call.scope, call.call_id))
        report("two bare statements", count, time.perf_counter() - started, time.process_time() - cpu)
        connection.close()


def report(what: str, count: int, seconds: float, cpu_seconds: float) -> None:
    each, cpu_each = (1e6 * value / count for value in (seconds, cpu_seconds))
    print(f"{what:22} {each:8.1f} µs each, {cpu_each:8.1f} µs of CPU")


def main() -> None:
    uri = sys.argv[1]
    count, in_flight = (int(text) for text in (*sys.argv[2:4], 20_000, 256)[:2])
    asyncio.run(measure(uri, count, in_flight))
    if uri.startswith("sqlite:"):
        bare_sqlite(count, in_flight)


if __name__ == "__main__":
    main()
