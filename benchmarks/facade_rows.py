"""The comparisons of `benchmarks/facade.py` as rows of the whole run."""

from __future__ import annotations

import asyncio

from benchmarks import facade
from benchmarks.facade_parts import call_parts, schema_parts
from benchmarks.rows import Found, Row

__all__ = ["measured"]


def measured(quick: bool) -> Found:
    """CPU of a call through the facade and of its steps, of a cache key and of an output schema."""
    rounds, runs = (2, 10) if quick else (9, 1_000)
    found = asyncio.run(facade.measured(rounds, runs))
    rows = [
        Row(one.name, "µs of CPU", one.ours_us, one.usual_us, one.usual, one.ratio, target=one.target) for one in found
    ]
    miss, hit = found[0].ours_us, found[1].ours_us
    return Found((*rows, *call_parts(miss, hit, runs), *schema_parts(runs)))
