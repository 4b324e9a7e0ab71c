"""What the calls of an activation cost, read from their LLM_CALL events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from beam_agents import attributes as names
from beam_agents.proto import TraceEvent
from beam_agents.values import TokenUsage

__all__ = ["CallSpend", "SpendClass", "discarded_calls", "usage_of"]

SpendClass: TypeAlias = Literal["discarded", "failed", "in_doubt"]
"""Class of a request whose activation did not commit."""


class CallSpend(NamedTuple):
    """One request on the wire: its attempt id, the class of its spend, its tokens when known."""

    id: str
    class_: SpendClass
    usage: TokenUsage | None


def discarded_calls(events: Iterable[TraceEvent]) -> tuple[CallSpend, ...]:
    """Every request that a failed activation made, built on or gave up, each once."""
    spent: dict[str, CallSpend] = {}
    for event in events:
        found = event.attributes
        for logged in orjson.loads(found.get(names.ATTEMPT_LOG, "[]")):
            spent.setdefault(logged["id"], _logged(logged))
        attempt_id = found.get(names.ATTEMPT_ID)
        if attempt_id:
            spent[attempt_id] = CallSpend(attempt_id, "discarded", usage_of(event))
    return tuple(spent.values())


def usage_of(event: TraceEvent) -> TokenUsage | None:
    """Tokens of the answer that a call got, or `None` where they are not known."""
    found = event.attributes
    if names.GEN_AI_USAGE_INPUT_TOKENS not in found or names.GEN_AI_USAGE_OUTPUT_TOKENS not in found:
        return None
    prompt, completion = int(found[names.GEN_AI_USAGE_INPUT_TOKENS]), int(found[names.GEN_AI_USAGE_OUTPUT_TOKENS])
    cached, reasoning = found.get(names.GEN_AI_USAGE_CACHED_TOKENS), found.get(names.GEN_AI_USAGE_REASONING_TOKENS)
    return TokenUsage(
        prompt,
        completion,
        prompt + completion,
        None if cached is None else int(cached),
        None if reasoning is None else int(reasoning),
    )


def _logged(logged: dict[str, Any]) -> CallSpend:
    if logged["outcome"] != "answered":
        return CallSpend(logged["id"], logged["outcome"], None)
    if "input_tokens" not in logged:
        return CallSpend(logged["id"], "discarded", None)
    read, written = logged["input_tokens"], logged["output_tokens"]
    return CallSpend(logged["id"], "discarded", TokenUsage(read, written, read + written))
