"""A decode whose answers can be relied on: what it reads is paid for, and must not get lost for an odd value."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from beam_agents.errors import ResponseDecodeError
from beam_agents.ports import Decode
from beam_agents.values import DecodedResponse, TokenUsage

__all__ = ["normalising"]

_TEXTS = ("text", "finish_reason", "refusal", "response_model", "response_id", "vendor_finish_reason")
_PLAIN = (str, type(None))
_COUNTS = tuple(each.name for each in fields(TokenUsage))
_MOST = 2**53


def normalising(decode: Decode) -> Decode:
    """`decode`, with ints of at least 0 for token counts and `str` for texts.

    Whole floats become ints; usage that cannot be counted becomes unknown; other texts become what `str` makes of
    them. Raises `ResponseDecodeError` for what is no `DecodedResponse` at all.
    """

    def normalised(response: bytes) -> DecodedResponse:
        decoded = decode(response)
        if not isinstance(decoded, DecodedResponse):
            raise ResponseDecodeError(f"decode must return a DecodedResponse, not {type(decoded).__name__}")
        odd: dict[str, Any] = {
            name: str(told) for name in _TEXTS if not isinstance(told := getattr(decoded, name), _PLAIN)
        }
        if decoded.usage is not None and not _is_plain(decoded.usage):
            odd["usage"] = _usage(decoded.usage)
        return replace(decoded, **odd) if odd else decoded

    return normalised


def _is_plain(usage: TokenUsage) -> bool:
    if type(usage) is not TokenUsage or usage.cached_tokens is not None or usage.reasoning_tokens is not None:
        return False
    counts = usage.prompt_tokens, usage.completion_tokens, usage.total_tokens
    return all(type(each) is int and 0 <= each <= _MOST for each in counts)


def _usage(told: object) -> TokenUsage | None:
    prompt, completion, total, cached, reasoning = (_count(getattr(told, name, None)) for name in _COUNTS)
    if prompt is None or completion is None or total is None:
        return None
    return TokenUsage(prompt, completion, total, cached, reasoning)


def _count(told: object) -> int | None:
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    return int(told) if 0 <= told <= _MOST and told == int(told) else None
