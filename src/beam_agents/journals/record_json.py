"""Records as JSON lines, for export."""

from __future__ import annotations

import base64
from dataclasses import asdict

import orjson

from beam_agents.journals.record import JournalRecord

__all__ = ["record_to_json"]


def record_to_json(record: JournalRecord) -> bytes:
    """One line of JSON, without its end of line.

    `entity_key` is hexadecimal. The answer, when the record carries it, is `response` as text where it is UTF-8, else
    `response_base64`.
    """
    call = record.call
    fields: dict[str, object] = {
        "attempt_id": record.attempt_id,
        "scope": call.scope,
        "call_id": call.call_id,
        "ordinal": record.ordinal,
        "kind": call.kind,
        "model": call.model_id,
        "entity_key": call.entity_key.hex(),
        "seq": call.seq,
        "step_index": call.step_index,
        "outcome": record.outcome,
        "error_type": record.error_type,
        "status": record.status,
        "usage": record.usage and asdict(record.usage),
        "owner": record.owner,
        "began_ms": record.began_ms,
        "ended_ms": record.ended_ms,
        "stored_bytes": record.stored_bytes,
        "sealed": record.sealed,
        "fingerprint": dict(call.fingerprint),
    }
    return orjson.dumps(fields | _response(record.response))


def _response(response: bytes | None) -> dict[str, object]:
    if response is None:
        return {}
    try:
        return {"response": response.decode()}
    except UnicodeDecodeError:
        return {"response_base64": base64.b64encode(response).decode()}
