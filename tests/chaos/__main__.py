"""`python -m tests.chaos --kills 200 --seed 1`: every row, its table, and an exit code that says whether all holds.

Finished rounds are kept in the directory: run it again with the same seed and it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.chaos.comparison import COMPARISON
from tests.chaos.rounds import Result
from tests.chaos.scenarios import SCENARIOS, Setting
from tests.chaos.table import summed, table

__all__ = ["main"]

_ROWS = SCENARIOS | COMPARISON
_KILLS_OF_A_ROUND = 12
_KILLS_OF_A_SMALL_ROW = 4


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    directory: Path = options.directory / f"seed-{options.seed}-keys-{options.keys}"
    if options.fresh:
        shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    results = [_round(directory, row, number, kills, options) for row, number, kills in _plan(options)]
    compared = [_round(directory, row, 0, _KILLS_OF_A_SMALL_ROW, options) for row in COMPARISON if options.compare]
    told = {"seed": options.seed, "keys": options.keys}
    for name, lines in (("rows", summed(results)), ("comparison", summed(compared))):
        print(f"\n{table(lines)}" if lines else "")
        told[name] = [asdict(line) for line in lines]
    (directory / "result.json").write_text(json.dumps(told, indent=1))
    print(f"\nAs JSON: {directory / 'result.json'}")
    for result in results:
        for problem in result.problems[:10]:
            print(f"{result.row}: {problem}", file=sys.stderr)
    return 0 if all(result.holds for result in results) else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs of the first row")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--rows", nargs="*", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--directory", type=Path, default=Path(".cache/chaos"), help="where rounds are kept")
    parser.add_argument("--no-compare", dest="compare", action="store_false", help="leave out the rows of the others")
    parser.add_argument("--fresh", action="store_true", help="forget the rounds that are done")
    return parser.parse_args(arguments)


def _plan(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    for row in options.rows:
        if row != "killed":
            yield row, 0, _KILLS_OF_A_SMALL_ROW
            continue
        left, number = options.kills, 0
        while left > 0:
            yield row, number, min(left, _KILLS_OF_A_ROUND)
            left, number = left - _KILLS_OF_A_ROUND, number + 1


def _of(row: str) -> str:
    """What a row's seed is made of: those that are compared have the same events, faults and kills."""
    return "comparison" if row in COMPARISON else row


def _round(directory: Path, row: str, number: int, kills: int, options: argparse.Namespace) -> Result:
    kept = directory / f"{row}-{number}-{kills}.json"
    if kept.exists():
        told = json.loads(kept.read_text())
        return Result(**{**told, "problems": tuple(told["problems"])})
    place = directory / f"{row}-{number}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        result = _ROWS[row](Setting(place, f"{options.seed}/{_of(row)}/{number}", options.keys, kills))
    except Exception as error:
        traceback.print_exc()
        result = Result.failed(row, f"{type(error).__name__}: {error}")
    done = result.holds or (row in COMPARISON and not result.problems)
    verdict = "done" if row in COMPARISON else "holds" if done else f"DOES NOT HOLD, see {place}"
    print(f"{row} {number}: {result.kills} kills, {result.requests} requests: {verdict}", flush=True)
    if done:
        kept.write_text(json.dumps(asdict(result)))
        shutil.rmtree(place)
    return result


if __name__ == "__main__":
    sys.exit(main())
