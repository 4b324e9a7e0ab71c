"""What a journal costs: `python benchmarks/journal.py URI [CALLS] [IN_FLIGHT]`.

Prints, for each call (intent and an answer of 1,500 bytes), time and this process's CPU, and the same for a lookup;
and how much of the journal a call takes, if it was empty before.
For `sqlite:///` it also prints the CPU of two bare statements a call, in one transaction for all calls in flight.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from beam_agents.journals import StoredJournal, open_journal, open_reader  # noqa: E402
from beam_agents.journals.sqlite import statements  # noqa: E402
from beam_agents.journals.sqlite.schema import SqliteFile, transaction  # noqa: E402
from beam_agents.journals.uri import JournalUri  # noqa: E402
from beam_agents.journals.vault import Vault  # noqa: E402
from beam_agents.model.journaling import Journaling  # noqa: E402
from beam_agents.ports import CallIdentity, Intent  # noqa: E402
from beam_agents.values import LlmResponse, TokenUsage  # noqa: E402
from benchmarks.rows import Found, in_turn, ratio, value  # noqa: E402
from benchmarks.timing import run_loop  # noqa: E402

__all__ = ["identities", "measured"]

ANSWER = LlmResponse(b"x" * 1_500)
USAGE = TokenUsage(100, 50, 150)
_VAULT = Vault()
_BARE_ANSWER = "UPDATE attempts SET state = 'answered', response = ? WHERE scope = ? AND call_id = ? AND ordinal = 1"


Way = Callable[[StoredJournal, CallIdentity], Awaitable[None]]


class Spent(NamedTuple):
    """Seconds of one call: on the clock, and of this process's CPU."""

    time: float
    cpu: float


def identities(count: int, scope: str) -> list[CallIdentity]:
    """So many calls of 500 keys."""
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


def measured(quick: bool) -> Found:
    """Intent and answer at 500 in flight in a file, alone and as the facade asks, beside two bare statements a call."""
    count, in_flight, rounds = (40, 10, 1) if quick else (10_000, 500, 7)
    waits: list[list[float]] = []

    def ours() -> float:
        spent, waited = _in_new_file(count, in_flight, _by_journal)
        waits.append(waited)
        return spent.cpu * 1e6

    found = in_turn(
        rounds,
        {
            "ours": ours,
            "facade": lambda: _in_new_file(count, in_flight, _by_facade)[0].cpu * 1e6,
            "same": lambda: bare_sqlite(count, in_flight, _whole_ending).cpu * 1e6,
            "bare": lambda: bare_sqlite(count, in_flight).cpu * 1e6,
        },
    )
    name = f"journal, {in_flight} in flight: intent and answer"
    peer = "two bare writes in one grouped transaction"
    spread = median(quantiles(waited, n=100)[98] / median(waited) for waited in waits)
    shown = f"median {median(map(median, waits)) * 1000:.1f} ms, both writes"
    return Found(
        (
            ratio(name, "µs of CPU", found["ours"], found["bare"], peer, 1.5),
            ratio(f"{name}, through the facade's layer", "µs of CPU", found["facade"], found["bare"], peer),
            ratio(f"{name}: its own two statements and digest alone", "µs of CPU", found["same"], found["bare"], peer),
            value(f"{name}: p99 of {count:,} calls in medians", "×", spread, 5.0, note=shown),
        )
    )


def _in_new_file(count: int, in_flight: int, way: Way) -> tuple[Spent, list[float]]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        spent: tuple[Spent, list[float]] = run_loop(
            _written(f"sqlite:///{Path(directory) / 'journal.db'}", count, in_flight, way)
        )
        return spent


async def _by_journal(journal: StoredJournal, call: CallIdentity) -> None:
    intent = await journal.begin(call)
    assert isinstance(intent, Intent)
    await journal.record_answer(intent, ANSWER.response, USAGE)


async def _by_facade(journal: StoredJournal, call: CallIdentity) -> None:
    journaling = Journaling(journal, lambda: 0, asyncio.sleep, None)
    intent = await journaling.begin(call, 0)
    assert isinstance(intent, Intent)
    await journaling.record_answer(intent, ANSWER, USAGE)


async def _written(uri: str, count: int, in_flight: int, way: Way) -> tuple[Spent, list[float]]:
    journal = open_journal(uri)
    waited: list[float] = []
    spent = await _write(journal, identities(count, f"run {time.time_ns()}"), in_flight, way, waited)
    await journal.aclose()
    return spent, waited


async def _write(
    journal: StoredJournal, calls: list[CallIdentity], in_flight: int, way: Way, waited: list[float]
) -> Spent:
    left = iter(calls)

    async def work() -> None:
        for call in left:
            began = time.perf_counter()
            await way(journal, call)
            waited.append(time.perf_counter() - began)

    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return Spent((time.perf_counter() - started) / len(calls), (time.process_time() - cpu) / len(calls))


async def _look_up(journal: StoredJournal, calls: list[CallIdentity]) -> Spent:
    started, cpu = time.perf_counter(), time.process_time()
    for call in calls:
        assert (await journal.find(call)).answer is not None
    return Spent((time.perf_counter() - started) / len(calls), (time.process_time() - cpu) / len(calls))


def _bare_ending(connection: sqlite3.Connection, call: CallIdentity) -> None:
    connection.execute(_BARE_ANSWER, (ANSWER.response, call.scope, call.call_id))


def _whole_ending(connection: sqlite3.Connection, call: CallIdentity) -> None:
    """As the journal does it: with usage, times, and a digest that binds them to the record."""
    statements.answer_first(connection, call, _VAULT.answer(call, 1, ANSWER.response, USAGE), 2)


def bare_sqlite(
    count: int, in_flight: int, end: Callable[[sqlite3.Connection, CallIdentity], None] = _bare_ending
) -> Spent:
    """Two statements a call, in one transaction for as many calls as would be in flight."""
    calls = identities(count, "bare")
    with tempfile.TemporaryDirectory() as directory:
        connection = SqliteFile.of(JournalUri.parse(f"sqlite:///{Path(directory)}/bare.db")).prepare()
        started, cpu = time.perf_counter(), time.process_time()
        for start in range(0, count, in_flight):
            with transaction(connection):
                for call in calls[start : start + in_flight]:
                    statements.insert_intent(connection, call, 1, ("session", "owner"), 1)
                    end(connection, call)
        spent = Spent((time.perf_counter() - started) / count, (time.process_time() - cpu) / count)
        connection.close()
    return spent


async def _everything(uri: str, count: int, in_flight: int) -> None:
    journal = open_journal(uri)
    calls = identities(count, f"run {time.time_ns()}")
    _print("intent and answer", await _write(journal, calls, in_flight, _by_journal, []))
    _print("lookup, one at a time", await _look_up(journal, calls[:5_000]))
    await journal.aclose()
    if not uri.startswith("memory:"):  # it ended with its journal
        reader = open_reader(uri)
        print(f"{'kept, if it was empty':22} {await reader.size_bytes() / count:8.0f} bytes a call")
        await reader.aclose()


def _print(what: str, spent: Spent) -> None:
    print(f"{what:22} {spent.time * 1e6:8.1f} µs each, {spent.cpu * 1e6:8.1f} µs of CPU")


def main() -> None:
    """Print what the journal of the command line costs."""
    uri = sys.argv[1]
    count, in_flight = (int(text) for text in (*sys.argv[2:4], 20_000, 256)[:2])
    asyncio.run(_everything(uri, count, in_flight))
    if uri.startswith("sqlite:"):
        _print("two bare statements", bare_sqlite(count, in_flight))


if __name__ == "__main__":
    main()
