"""One full example of every message, and how the golden files were written.

`python -m tests.proto.examples` writes files that are missing. A file that is there is never written again: it
stands for state and traces that are out in the world.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from google.protobuf.message import Message

from beam_agents.proto import AgentCell, LlmCacheBlob, TraceEvent

__all__ = ["EXAMPLES", "GOLDEN"]

GOLDEN = Path(__file__).parent / "golden"

_CACHE = LlmCacheBlob(
    state_schema_version=1,
    entries=[
        LlmCacheBlob.Entry(
            cache_key="ab" * 32,
            response=b'{"text": "h\xc3\xa9llo"}\x00\xff',
            response_digest=sha256(b'{"text": "h\xc3\xa9llo"}\x00\xff').digest(),
            created_at_ms=1_700_000_000_000,
            last_access_ms=1_700_000_360_000,
            attempt_ordinal=3,
        ),
        LlmCacheBlob.Entry(
            cache_key="cd" * 32,
            response_digest=sha256(b"too big").digest(),
            created_at_ms=0,
            last_access_ms=-1,
            digest_only=True,
        ),
    ],
    total_response_bytes=20,
)

EXAMPLES: dict[str, Message] = {
    "trace_event": TraceEvent(
        trace_id=bytes(range(16)),
        span_id=bytes(range(8)),
        parent_span_id=bytes(range(8, 16)),
        entity_key=b"customer-\xff",
        seq=42,
        step_index=-1,
        event_type=TraceEvent.LLM_CALL,
        attributes={"gen_ai.operation.name": "chat", "beam_agents.billed": "true", "note": "日本 😀"},
        start_ms=1_700_000_000_000,
        end_ms=1_700_000_000_250,
    ),
    "activation_event": TraceEvent(
        entity_key=b"k", event_type=TraceEvent.ACTIVATION, attributes={"beam_agents.outcome": "committed"}
    ),
    "llm_cache_blob": _CACHE,
    "agent_cell": AgentCell(
        state_schema_version=1,
        next_seq=7,
        agent_state=b'{"count": 7}',
        cache=_CACHE,
        queue=[
            AgentCell.QueuedEvent(
                seq=7, event_time_micros=-9_223_372_036_854_775_000, event=b"\x00event", deadline_ms=1_700_000_060_000
            ),
            AgentCell.QueuedEvent(seq=8, event_time_micros=1_700_000_000_000_000, event=b"", deadline_ms=1),
        ],
        next_position=9,
    ),
}

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, message in EXAMPLES.items():
        path = GOLDEN / f"{name}.binpb"
        if not path.exists():
            path.write_bytes(message.SerializeToString(deterministic=True))
