"""All benchmarks, each beside its peer in one run: `python -m benchmarks` (10 minutes) or `make bench`.

Prints a table and writes `results.json`, `results.md` and `plots.html`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.conditions import conditions
from benchmarks.groups import GROUPS, measure_apart
from benchmarks.reporting import print_table, write_all
from benchmarks.rows import Found

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Measure and report. Exits with 1 where a benchmark failed; a missed target is only marked."""
    options = _parser().parse_args(arguments)
    facts: dict[str, object] = {
        **conditions(),
        "command": "python -m benchmarks " + " ".join(arguments or sys.argv[1:]),
    }
    found: dict[str, Found] = {}
    failed: list[str] = []
    began = time.perf_counter()
    for name in options.only or GROUPS:
        since = time.perf_counter()
        print(f"{name} …", end=" ", flush=True)
        try:
            found[name] = measure_apart(name, quick=options.quick)
        except subprocess.SubprocessError as error:
            failed.append(name)
            print(f"failed: {error}")
        else:
            print(f"{time.perf_counter() - since:.0f} s")
    facts["minutes"] = f"{(time.perf_counter() - began) / 60:.1f}"
    facts["load afterwards"] = conditions()["load"]
    print_table(found)
    write_all(found, facts, options.out)
    print(f"written to {options.out}/: results.json, results.md, plots.html")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, figures mean nothing")
    parser.add_argument("--only", nargs="+", choices=tuple(GROUPS), metavar="NAME", help=f"some of {', '.join(GROUPS)}")
    parser.add_argument("--out", type=Path, default=Path(".bench"), help="folder for the results (default: .bench)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
