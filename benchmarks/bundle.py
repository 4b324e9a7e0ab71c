"""One bundle of 100,000 events on Beam's in-process runner: every output once, in order, and what the process holds.

Calls end at once; an empty stateful step over the same events says what the runner itself holds of them. Each run is
a process of its own. Run `python -m benchmarks.bundle`.
"""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam

from beam_agents import RunAgent
from benchmarks.processes import environment, python
from benchmarks.work import EmptyStateful, config_for, pairs_of, run_counted

__all__ = ["main", "measure", "print_measured"]

EVENTS = 100_000
KEYS = (100, 100_000)

_came: dict[str, int] = {}
_bundles = [0]


async def agent(ctx: Any, event: str) -> tuple[str, int]:
    """One call; tells which event it had, at which position."""
    await ctx.complete(event)
    return event, ctx.seq


class _Note(beam.DoFn):  # type: ignore[misc]
    """Remembers every output, and counts the bundles that had one."""

    def start_bundle(self) -> None:
        self._is_new = True

    def process(self, output: Any) -> Iterator[Any]:
        _bundles[0] += self._is_new
        self._is_new = False
        event, seq = output
        if event in _came:
            raise RuntimeError(f"{event!r} came twice")
        _came[event] = seq
        yield event


def _agents(elements: Any) -> Any:
    return (elements | "Agent" >> RunAgent(agent, config_for())).main | beam.ParDo(_Note())


def _empty(elements: Any) -> Any:
    return elements | beam.ParDo(EmptyStateful())


_BUILDS: dict[str, Callable[[Any], Any]] = {"agents": _agents, "empty": _empty}


def measure(what: str, keys: int, events: int) -> dict[str, float]:
    """In this process: seconds, bundles, and by how much the most memory in use grew, in MB. Linux alone."""
    pairs = pairs_of(keys, events // keys)
    run_counted(_BUILDS[what], pairs_of(20))
    _came.clear()
    _bundles[0] = 0
    before = _most_mb()
    took = run_counted(_BUILDS[what], pairs)
    if what == "agents" and _came != {event: n // keys for n, (_, event) in enumerate(pairs)}:
        raise RuntimeError("an output is missing, or not at its position")
    return {"s": took, "bundles": _bundles[0], "mb": _most_mb() - before}


def _most_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def print_measured(what: str, keys: int, events: int) -> None:
    """Entry of a fresh process, as a module that workers can import: what was measured, as JSON."""
    print(json.dumps(measure(what, keys, events)))


def main(events: int = EVENTS) -> None:
    """Measure each in a process of its own, and print a table."""
    print("| step | keys | bundles | s | memory, MB |\n|---|---|---|---|---|")
    for what in _BUILDS:
        for keys in KEYS:
            call = f"from benchmarks.bundle import print_measured; print_measured({what!r}, {keys}, {events})"
            told = subprocess.run(python("-c", call), check=True, stdout=subprocess.PIPE, text=True, env=environment())
            found = json.loads(told.stdout.splitlines()[-1])
            print(
                f"| {what} | {keys:,} | {found['bundles'] or '–'} | {found['s']:.0f} | {found['mb']:.0f} |", flush=True
            )


if __name__ == "__main__":
    main()
