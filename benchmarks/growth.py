"""Cost of an activation as keys, events of a key, prompts and the journal grow."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from beam_agents.activation.loop import close_activation_loop
from beam_agents.journals.attempts import Ending
from beam_agents.journals.sqlite import statements
from beam_agents.journals.sqlite.schema import SqliteFile, transaction
from beam_agents.journals.uri import JournalUri
from benchmarks.journal import identities
from benchmarks.rows import Curve, Found, Row, slope, value
from benchmarks.work import agent_pipeline, config_for, pairs_of

__all__ = ["measured"]


def measured(quick: bool) -> Found:
    """Time of whole runs over growing sizes, with a client that answers at once."""
    agent_pipeline(pairs_of(2), config_for())
    if quick:
        return _grown(keys=(10, 20), events=(1, 2), sizes=(100, 1_000), records=(10, 20), runs=2, base=10)
    return _grown(
        keys=(1_000, 5_000, 20_000),
        events=(1, 10, 100),
        sizes=(1_000, 10_000, 100_000),
        records=(2_000, 20_000, 200_000),
        runs=5,
        base=2_000,
        most=100_000,
    )


def _grown(
    keys: tuple[int, ...],
    events: tuple[int, ...],
    sizes: tuple[int, ...],
    records: tuple[int, ...],
    runs: int,
    base: int,
    most: int | None = None,
) -> Found:
    row, keys_curve = _by_keys(keys, runs, most)
    curves = [
        ("events of a key", events, lambda each: agent_pipeline(pairs_of(base // each, each), config_for())),
        ("characters of a prompt", sizes, lambda size: agent_pipeline(pairs_of(base, 1, size), config_for())),
    ]
    with _filled(records) as journals:
        curves.append(("records in the journal", records, lambda held: _with_journal(journals[held], base)))
        found = [_curve(*curve, base) for curve in curves]
    return Found((row, *map(_grows, found)), (keys_curve, *found))


def _by_keys(sizes: tuple[int, ...], runs: int, most: int | None) -> tuple[Row, Curve]:
    times = [[(n, agent_pipeline(pairs_of(n), config_for())) for n in sizes] for _ in range(runs)]
    slopes = sorted(slope(points) for points in times)
    points = [(n, median(run[place][1] for run in times)) for place, n in enumerate(sizes)]
    if most is not None:
        points.append((most, agent_pipeline(pairs_of(most), config_for())))
    note = f"time ~ keys^slope, {runs} runs of {', '.join(f'{n:,}' for n in sizes)} keys: {_listed(slopes)}"
    if most is not None:
        note += f"; medians with one run of {most:,}: {slope(points):.2f}"
    row = value("slope of the time of a run over its keys", "", median(slopes), 1.1, note=note)
    return row, Curve("a key", "keys", "µs", tuple((n, took / n * 1e6) for n, took in points))


def _curve(size: str, sizes: tuple[int, ...], run: Callable[[int], float], activations: int) -> Curve:
    points = [(n, median(run(n) for _ in range(3)) / activations * 1e6) for n in sizes]
    return Curve("an activation", size, "µs", tuple(points))


def _grows(curve: Curve) -> Row:
    """How the cost of one activation grows."""
    costs = ", ".join(f"{size:,.0f}: {cost:,.0f} µs" for size, cost in curve.points)
    return value(f"slope of an activation's cost over {curve.size}", "", slope(curve.points), 1.1, note=costs)


def _with_journal(filled: Path, keys: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        path = shutil.copy(filled, directory)
        took = agent_pipeline(pairs_of(keys), config_for(journal=f"sqlite:///{path}"))
        close_activation_loop()
        return took


@contextmanager
def _filled(sizes: tuple[int, ...]) -> Iterator[dict[int, Path]]:
    """A journal for each of `sizes`."""
    with tempfile.TemporaryDirectory() as directory:
        journals = {size: Path(directory) / f"{size}.db" for size in sizes}
        for size, path in journals.items():
            _fill(path, size)
        yield journals


def _fill(path: Path, records: int) -> None:
    """A journal that holds so many answered calls of other runs."""
    connection: sqlite3.Connection = SqliteFile.of(JournalUri.parse(f"sqlite:///{path}")).prepare()
    ending = Ending("answered", usage="", digest=b"x" * 32, stored=b"x" * 500)
    with transaction(connection):
        for call in identities(records, "earlier"):
            statements.insert_intent(connection, call, 1, ("session", "owner"), 1)
            statements.finish(connection, call, 1, ending, 1)
    connection.close()


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in numbers)
