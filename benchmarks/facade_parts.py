"""Where the time of a call through the facade and of an output schema goes: each of their steps by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

from beam_agents.model import CircuitState, LlmResponse, ReplayCache, compute_cache_key
from beam_agents.model.call_record import Attempt, CallRecord, Endpoint
from beam_agents.model.schema import fold, parse_output
from beam_agents.values import DecodedResponse
from benchmarks.facade import ANSWER, KEY, WIRE, Instant, Parcel, clock, decode, request_of
from benchmarks.rows import Row, value

__all__ = ["call_parts", "schema_parts"]

_ROUNDS = 5

Steps = dict[str, Callable[[], object]]


def call_parts(miss_us: float, hit_us: float, runs: int) -> list[Row]:
    """CPU of each step of a call with a 4 KB request and a 1 KB answer, and what a miss and a hit take beside them."""
    request, response, cache = request_of(4_096), LlmResponse(WIRE), ReplayCache(now_ms=clock)
    record, endpoint, number = _answered(), Endpoint.of(Instant()), count()
    cache.put("known", response)
    both: Steps = {
        "cache key": lambda: compute_cache_key("m-1", request.messages, None, request.sampling_params, KEY, 7),
        "digest of the answer": lambda: LlmResponse(WIRE),
        "decode": lambda: decode(WIRE),
        "LLM_CALL event": lambda: record.event(endpoint, CircuitState.CLOSED, 1, None),
    }
    shared = _cpu(both, runs)
    put = _cpu({"": lambda: cache.put(f"{next(number):064x}", response, attempt_ordinal=1)}, runs)[""]
    cache.put("known", response)
    got = _cpu({"": lambda: cache.get("known")}, runs)[""]
    told = {
        **{f"of a call: {name}": us for name, us in shared.items()},
        "of a miss: kept in the replay cache": put,
        "of a hit: found in the replay cache": got,
        "of a miss: all else": miss_us - sum(shared.values()) - put,
        "of a hit: all else": hit_us - sum(shared.values()) - got,
    }
    return _rows(told)


def schema_parts(runs: int) -> list[Row]:
    """CPU of what an output schema of twelve fields costs beside its validation."""
    request, decoded = request_of(1_024), DecodedResponse(None, ANSWER)
    colon = DecodedResponse(None, ANSWER.replace("DHL Express", "DHL: Express"))
    return _rows(
        _cpu(
            {
                "of an output schema: fold": lambda: fold(request, Parcel),
                "of an output schema: parse, strictly": lambda: parse_output(decoded, Parcel),
                "of an output schema: parse, strictly, a text with a colon": lambda: parse_output(colon, Parcel),
            },
            runs,
        )
    )


def _rows(told: dict[str, float]) -> list[Row]:
    return [value(name, "µs of CPU", us) for name, us in told.items()]


def _answered() -> CallRecord:
    record = CallRecord(request_of(4_096), KEY, 7, 0, start_ms=1, attempts=1, billed=True, answered_by=1)
    record.call_id = "a" * 64
    record.log.append(Attempt(1, "answered"))
    record.decoded = decode(WIRE)
    return record


def _cpu(steps: Steps, runs: int) -> dict[str, float]:
    """The best of some rounds of each."""
    return {name: min(_cpu_us(step, runs) for _ in range(_ROUNDS)) for name, step in steps.items()}


def _cpu_us(step: Callable[[], object], runs: int) -> float:
    began = time.thread_time_ns()
    for _ in range(runs):
        step()
    return (time.thread_time_ns() - began) / runs / 1_000
