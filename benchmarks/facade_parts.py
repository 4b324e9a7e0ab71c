"""Where the time of a call through the facade goes: each of its steps by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

from beam_agents.model import CircuitState, LlmResponse, ReplayCache, compute_cache_key
from beam_agents.model.call_record import Attempt, CallRecord, Endpoint
from benchmarks.facade import KEY, WIRE, Instant, clock, decode, request_of
from benchmarks.rows import Row, value

__all__ = ["parts"]


def parts(runs: int) -> list[Row]:
    """CPU of each step of a miss with a 4 KB request and a 1 KB answer; the best of five rounds."""
    request, response, cache = request_of(4_096), LlmResponse(WIRE), ReplayCache(now_ms=clock)
    record, endpoint, number = _answered(), Endpoint.of(Instant()), count()
    steps: dict[str, Callable[[], object]] = {
        "cache key": lambda: compute_cache_key("m-1", request.messages, None, request.sampling_params, KEY, 7),
        "digest of the answer": lambda: LlmResponse(WIRE),
        "decode": lambda: decode(WIRE),
        "replay cache": lambda: cache.put(f"{next(number):064x}", response, attempt_ordinal=1),
        "LLM_CALL event": lambda: record.event(endpoint, CircuitState.CLOSED, 1, None),
    }
    return [
        value(f"of a miss: {name}", "µs of CPU", min(_cpu_us(step, runs) for _ in range(5)))
        for name, step in steps.items()
    ]


def _answered() -> CallRecord:
    record = CallRecord(request_of(4_096), KEY, 7, 0, start_ms=1, attempts=1, billed=True, answered_by=1)
    record.call_id = "a" * 64
    record.log.append(Attempt(1, "answered"))
    record.decoded = decode(WIRE)
    return record


def _cpu_us(step: Callable[[], object], runs: int) -> float:
    began = time.thread_time_ns()
    for _ in range(runs):
        step()
    return (time.thread_time_ns() - began) / runs / 1_000
