"""Token counts of every vendor under one meaning. Odd counts become `None`; they never lose an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from beam_agents.values import TokenUsage

__all__ = ["count", "counts_of", "total_usage"]


def count(value: object) -> int | None:
    """A token count from a number or a numeric string, or `None` when it is not one."""
    # `type`, because a boolean is an int too; most counts end here.
    if type(value) is int:
        return value if 0 <= value < 2**63 else None
    if isinstance(value, str):
        value = _from_text(value)
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) and value == int(value) else None
    return value if type(value) is int and 0 <= value < 2**63 else None


def _from_text(value: str) -> float | int | None:
    if len(value) > 30 or not value.isascii():
        return None
    try:
        return int(value) if value.strip().isdigit() else float(value)
    except ValueError:
        return None


def counts_of(value: Any) -> Mapping[str, Any]:
    """`value` when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def total_usage(
    prompt: int | None,
    completion: int | None,
    total: int | None,
    *,
    cached: int | None = None,
    reasoning: int | None = None,
) -> TokenUsage | None:
    """Usage whose total is always prompt plus completion; `None` unless both are known or follow from `total`.

    Cached tokens beside the prompt, and reasoning tokens beside the completion, are counted in: they stand
    beside it when they are larger than the whole, or when only so the endpoint's own total adds up.
    """
    if prompt is None and completion is not None and total is not None:
        prompt = total - completion
    if completion is None and prompt is not None and total is not None:
        completion = total - prompt
    if prompt is None or completion is None or prompt < 0 or completion < 0:
        return None
    if reasoning and (reasoning > completion or total == prompt + completion + reasoning):
        completion += reasoning
    if cached is not None and cached > prompt:
        prompt += cached
    return TokenUsage(prompt, completion, prompt + completion, cached, reasoning)
