"""Time that work takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["noting_cpu", "run_loop", "seconds"]

_T = TypeVar("_T")


def seconds(work: Callable[[], Any]) -> float:
    """How long `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def noting_cpu(spent: list[float], work: Callable[[], _T]) -> Callable[[], _T]:
    """`work`, adding to `spent` how many seconds of CPU this process spends on it each time."""

    def noted() -> _T:
        began = time.process_time()
        result = work()
        spent.append(time.process_time() - began)
        return result

    return noted


def run_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """As `asyncio.run`, on the kind of loop that activations run on."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
