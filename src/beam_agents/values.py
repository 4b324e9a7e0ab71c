"""The values that pass between layers: requests, answers, usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias, Union

__all__ = ["DecodedResponse", "Json", "JsonObject", "LlmRequest", "LlmResponse", "TokenUsage", "well_formed"]

Json: TypeAlias = Union[bool, int, float, str, Sequence["Json"], Mapping[str, "Json"], None]  # noqa: UP007 - forward references
"""A value that JSON can hold."""

JsonObject: TypeAlias = Mapping[str, Json]
"""A JSON object."""


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """One request to a model, in the neutral form that every provider client translates to its own wire.

    Attributes:
        model_id: the vendor's name of the model.
        messages: chat-completions-shaped messages, a list of objects with `role` and `content`.
        tools_schema: chat-completions-shaped tool definitions, or `None`.
        sampling_params: further parameters by their chat-completions names, or `None`.
    """

    model_id: str
    messages: Sequence[JsonObject]
    tools_schema: Json = None
    sampling_params: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class LlmResponse:
    """The provider's bytes, verbatim, and their raw sha256 digest (32 bytes)."""

    response: bytes
    response_digest: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "response_digest", sha256(self.response).digest())


def _known_sum(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one answer, or of several added up.

    `prompt_tokens` includes `cached_tokens`; `completion_tokens` includes `reasoning_tokens`; both details
    are `None` when the endpoint did not say. A sum counts the known parts, and is `None` only where every
    part is unknown.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        if not isinstance(other, TokenUsage):
            return NotImplemented
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
            _known_sum(self.cached_tokens, other.cached_tokens),
            _known_sum(self.reasoning_tokens, other.reasoning_tokens),
        )


def well_formed(text: str) -> str:
    """`text` with `?` in place of each lone surrogate: JSON can name those, but UTF-8 and protobuf cannot hold them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class DecodedResponse:
    """What a provider's `decode` reads from the verbatim bytes of an answer.

    Attributes:
        usage: token counts, or `None` when the endpoint did not say.
        text: the answer's text (all text parts joined), or `None` when it has none.
        finish_reason: `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the vendor's own word.
        refusal: the model's words of refusal, when it refused.
        tool_calls: chat-completions-shaped tool calls.
        response_model: the model that answered, by the vendor's name.
        response_id: the vendor's id of the answer.
        vendor_finish_reason: the vendor's own word for why the model stopped.
    """

    usage: TokenUsage | None
    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    tool_calls: tuple[JsonObject, ...] = ()
    response_model: str | None = None
    response_id: str | None = None
    vendor_finish_reason: str | None = None
