"""Makes the events of calls and activations for the tests of reports."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from beam_agents import attributes as names
from beam_agents.exporters.jsonl import entity_key_to_json, event_to_json
from beam_agents.proto import TraceEvent
from beam_agents.report.build import report_of
from beam_agents.report.contents import Report
from beam_agents.report.dead_letters import Letter
from beam_agents.report.gather import Gathering

__all__ = ["activation", "attempt", "call", "dead_letter", "sample_letters", "sample_report", "sample_run"]

START_MS = 1_790_000_000_000


def trace_id(key: str, seq: int) -> bytes:
    return random.Random(f"{key}/{seq}").randbytes(16)


def attempt(attempt_id: str, outcome: str, error: str = "ServerError", status: int | None = 503) -> dict[str, Any]:
    """One entry of an attempt log."""
    logged: dict[str, Any] = {"id": attempt_id, "outcome": outcome, "error": error}
    return logged if status is None else logged | {"status": status}


def call(
    key: str = "k",
    seq: int = 0,
    step: int = 0,
    *,
    tokens: tuple[int, int] | None = (100, 20),
    cached: int | None = None,
    start_ms: int = START_MS,
    took_ms: int = 500,
    model: str = "gpt-4o-mini",
    billed: bool = True,
    replay: str = "",
    attempt_id: str | None = None,
    log: tuple[dict[str, Any], ...] = (),
    error: str = "",
    circuit: str = "closed",
    waited_ms: int = 0,
    endpoint: tuple[str, str] = ("api.openai.com", "443"),
    **more: str,
) -> TraceEvent:
    """One LLM_CALL event as the facade writes it."""
    found = {
        names.GEN_AI_OPERATION_NAME: "chat",
        names.GEN_AI_PROVIDER_NAME: "openai",
        names.GEN_AI_REQUEST_MODEL: model,
        names.SERVER_ADDRESS: endpoint[0],
        names.SERVER_PORT: endpoint[1],
        names.CACHE_HIT: str(replay in ("cache", "journal", "flight")).lower(),
        names.BILLED: str(billed).lower(),
        names.ATTEMPTS: str(len(log) + billed),
        names.CIRCUIT_STATE: circuit,
        names.CALL_ID: f"call-{key}-{seq}-{step}",
        names.IN_DOUBT: str(sum(one["outcome"] == "in_doubt" for one in log)),
    }
    if attempt_id is None and (billed or replay):
        attempt_id = f"call-{key}-{seq}-{step}:{len(log) + 1}"
    optional = {
        names.ATTEMPT_ID: attempt_id,
        names.REPLAY: replay,
        names.ERROR_TYPE: error,
        names.WAITED_MS: str(waited_ms) if waited_ms else "",
        names.ATTEMPT_LOG: json.dumps(log) if log else "",
        names.GEN_AI_USAGE_INPUT_TOKENS: "" if tokens is None else str(tokens[0]),
        names.GEN_AI_USAGE_OUTPUT_TOKENS: "" if tokens is None else str(tokens[1]),
        names.GEN_AI_USAGE_CACHED_TOKENS: "" if cached is None else str(cached),
    }
    found |= {name: text for name, text in optional.items() if text}
    return TraceEvent(
        trace_id=trace_id(key, seq),
        span_id=random.Random(f"{key}/{seq}/{step}").randbytes(8),
        parent_span_id=random.Random(f"{key}/{seq}").randbytes(8),
        entity_key=key.encode(),
        seq=seq,
        step_index=step,
        event_type=TraceEvent.LLM_CALL,
        attributes=found | more,
        start_ms=start_ms,
        end_ms=start_ms + took_ms,
    )


def activation(
    key: str = "k", seq: int = 0, *, start_ms: int = START_MS, took_ms: int = 600, outcome: str = "committed"
) -> TraceEvent:
    """One ACTIVATION event."""
    return TraceEvent(
        trace_id=trace_id(key, seq),
        span_id=random.Random(f"{key}/{seq}").randbytes(8),
        entity_key=key.encode(),
        seq=seq,
        event_type=TraceEvent.ACTIVATION,
        attributes={names.OUTCOME: outcome},
        start_ms=start_ms,
        end_ms=start_ms + took_ms,
    )


def dead_letter(*events: TraceEvent, error: str = "OutputSchemaError", reason: str = "", **more: Any) -> dict[str, Any]:
    """One dead letter as a JSON object."""
    first = events[0] if events else TraceEvent(entity_key=b"k")
    return {
        "entity_key": entity_key_to_json(first.entity_key),
        "seq": first.seq,
        "event": {"text": "…"},
        "error_type": error,
        "message": f"{error} happened",
        "reason": reason or None,
        "attempts": 1,
        "calls": [],
        "trace_events": [event_to_json(event) for event in events],
        "start_ms": first.start_ms,
        "end_ms": first.end_ms,
    } | more


def sample_run(activations: int = 400, *, seed: int = 7) -> Iterator[TraceEvent]:
    """A believable run: two models, an outage with an open circuit, answers recovered after a failed bundle."""
    rng = random.Random(seed)
    for number in range(activations):
        key, at_ms = f"customer-{rng.randrange(60)}", START_MS + number * 1_500 + rng.randrange(400)
        outage = 0.45 < number / activations < 0.55
        began = at_ms
        for step in range(rng.choice((1, 1, 2, 3))):
            event = _sample_call(rng, key, number, step, at_ms, outage)
            at_ms = event.end_ms
            yield event
        yield activation(key, number, start_ms=began, took_ms=at_ms - began + 5)


def sample_letters(count: int = 12, *, seed: int = 8) -> Iterator[dict[str, Any]]:
    """Dead letters of that run: broken answers, and calls refused while the circuit was open."""
    rng = random.Random(seed)
    for number in range(count):
        key, at_ms = f"customer-{rng.randrange(60)}", START_MS + 270_000 + number * 5_000
        if number % 3:
            broken = call(
                key, 10_000 + number, start_ms=at_ms, took_ms=900, tokens=(700, 90), error="OutputSchemaError",
                **{names.SCHEMA_FAILURE: rng.choice(("truncated", "invalid_json"))},
            )  # fmt: skip
            yield dead_letter(broken, reason="invalid_json")
        else:
            refused = call(
                key, 10_000 + number, start_ms=at_ms, took_ms=0, tokens=None, billed=False, circuit="open",
                error="CircuitOpenError",
            )  # fmt: skip
            yield dead_letter(refused, error="CircuitOpenError")


def _sample_call(rng: random.Random, key: str, seq: int, step: int, at_ms: int, outage: bool) -> TraceEvent:
    model, endpoint = rng.choice(
        (("gpt-4o-mini", ("api.openai.com", "443")), ("claude-haiku-4-5", ("api.anthropic.com", "443")))
    )
    more = {names.GEN_AI_PROVIDER_NAME: "anthropic" if "claude" in model else "openai"}
    tokens = (rng.randrange(300, 2_000), rng.randrange(20, 400))
    took_ms = round(rng.lognormvariate(6.6, 0.5))
    if rng.random() < 0.12:
        return call(
            key, seq, step, start_ms=at_ms, took_ms=2, model=model, endpoint=endpoint, tokens=tokens, billed=False,
            replay="journal", **more,
        )  # fmt: skip
    struck = outage and "gpt" in model
    if struck or rng.random() < 0.05:
        name = f"call-{key}-{seq}-{step}"
        failed = rng.random() < 0.7
        one = attempt(f"{name}:1", "failed") if failed else attempt(f"{name}:1", "in_doubt", "ProviderTimeout", None)
        circuit = rng.choice(("open", "half_open")) if struck else "closed"
        return call(
            key, seq, step, start_ms=at_ms, took_ms=took_ms + 4_000, model=model, endpoint=endpoint, tokens=tokens,
            log=(one,), waited_ms=3_000 + rng.randrange(1_000), circuit=circuit, **more,
        )  # fmt: skip
    return call(
        key, seq, step, start_ms=at_ms, took_ms=took_ms, model=model, endpoint=endpoint, tokens=tokens,
        cached=tokens[0] // 2 if rng.random() < 0.3 else None, **more,
    )  # fmt: skip


def sample_report() -> Report:
    """The report of that run and its dead letters."""
    gathering = Gathering()
    for event in sample_run():
        gathering.add_event(event)
    for letter in sample_letters():
        gathering.add_dead_letter(Letter.from_json(letter))
    return report_of(gathering, sources=["traces.jsonl", "errors.jsonl"])
