"""Time that work takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["run_loop", "seconds"]


def seconds(work: Callable[[], Any]) -> float:
    """How long `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """As `asyncio.run`, on the kind of loop that activations run on."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
