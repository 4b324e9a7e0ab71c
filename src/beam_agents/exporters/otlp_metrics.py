"""The client metrics of OpenTelemetry's GenAI conventions, from trace events."""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Meter

from beam_agents import attributes as names
from beam_agents.exporters.otlp_span import SpanValue, typed_attributes
from beam_agents.proto import TraceEvent

__all__ = ["DURATION_BUCKETS_S", "TOKEN_BUCKETS", "CallMetrics"]

DURATION_BUCKETS_S: Final = (*(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),)
"""The convention's bucket boundaries of `gen_ai.client.operation.duration`, in seconds."""

TOKEN_BUCKETS: Final = tuple(4**power for power in range(14))
"""The convention's bucket boundaries of `gen_ai.client.token.usage`: 1, 4, 16, … 67108864."""

_DIMENSIONS: Final = (
    names.GEN_AI_OPERATION_NAME,
    names.GEN_AI_PROVIDER_NAME,
    names.GEN_AI_REQUEST_MODEL,
    names.GEN_AI_RESPONSE_MODEL,
    names.SERVER_ADDRESS,
    names.SERVER_PORT,
)


class CallMetrics:
    """Records the duration and the billed tokens of calls. A replayed call records nothing."""

    def __init__(self, meter: Meter) -> None:
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS_S,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        )

    def record(self, event: TraceEvent) -> None:
        """Record `event` when it is a call that was not answered from a store."""
        if event.event_type != TraceEvent.LLM_CALL or event.attributes.get(names.CACHE_HIT) == "true":
            return
        typed = typed_attributes(event)
        dimensions: dict[str, SpanValue] = {name: typed[name] for name in _DIMENSIONS if name in typed}
        seconds = max(0, event.end_ms - event.start_ms) / 1000
        failed: dict[str, SpanValue] = {names.ERROR_TYPE: typed[names.ERROR_TYPE]} if names.ERROR_TYPE in typed else {}
        self._duration.record(seconds, dimensions | failed)
        if event.attributes.get(names.BILLED) == "true":
            self._record_tokens(typed, dimensions)

    def _record_tokens(self, typed: dict[str, SpanValue], dimensions: dict[str, SpanValue]) -> None:
        for token_type, name in (
            ("input", names.GEN_AI_USAGE_INPUT_TOKENS),
            ("output", names.GEN_AI_USAGE_OUTPUT_TOKENS),
        ):
            count = typed.get(name)
            if isinstance(count, int):
                self._tokens.record(count, dimensions | {"gen_ai.token.type": token_type})
