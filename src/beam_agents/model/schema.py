"""Output schemas: folded into the request before the call, enforced on the answer after it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import jiter
import orjson
from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticUserError

from beam_agents.errors import OutputSchemaError, SchemaFailure
from beam_agents.values import DecodedResponse, Json, LlmRequest

__all__ = ["SAMPLE_PARAM", "Verdict", "fold", "parse_output", "response_format"]

_M = TypeVar("_M", bound=BaseModel)

SAMPLE_PARAM = "beam_agents.sample"
"""Name under which `sample` enters the cache key. It never reaches the wire."""

_FENCE = re.compile(r"\s*```(?:[A-Za-z][\w+-]*(?=\s))?(.*)```\s*", re.DOTALL)
_NAMED_ERRORS = 3
_SURELY_SHALLOW = 100

_formats: WeakKeyDictionary[type[BaseModel], dict[str, Json]] = WeakKeyDictionary()


def response_format(output_schema: type[BaseModel]) -> dict[str, Json]:
    """The chat-completions `response_format` that asks for `output_schema`; computed once per class.

    Raises:
        TypeError: when `output_schema` is not a Pydantic model class with a JSON schema.
    """
    try:
        return _formats[output_schema]
    except (KeyError, TypeError):
        pass
    if not (isinstance(output_schema, type) and issubclass(output_schema, BaseModel)) or output_schema is BaseModel:
        raise TypeError(f"output_schema must be a Pydantic model class, not {output_schema!r}")
    try:
        schema = output_schema.model_json_schema()
    except PydanticUserError as error:
        raise TypeError(f"output_schema {output_schema.__name__} has no JSON schema: {error.message}") from None
    name = re.sub(r"[^A-Za-z0-9_-]", "_", output_schema.__name__)[:64]
    made: dict[str, Json] = {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": _without_endless_defaults(schema), "strict": True},
    }
    _formats[output_schema] = made
    return made


def _without_endless_defaults(schema: Any) -> Any:
    """`schema` without defaults such as NaN, which JSON cannot hold; validation fills them in all the same."""
    if isinstance(schema, list):
        return [_without_endless_defaults(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_endless_defaults(value)
        for name, value in schema.items()
        if not (name == "default" and isinstance(value, float) and not math.isfinite(value))
    }


def fold(request: LlmRequest, output_schema: type[BaseModel] | None) -> LlmRequest:
    """The request that is sent: `request` with the output schema among its sampling parameters.

    Raises:
        ValueError: when the request brings a `response_format` of its own.
        TypeError: as in `response_format`.
    """
    if output_schema is None:
        return request
    params = request.sampling_params or {}
    if "response_format" in params:
        raise ValueError("sampling_params holds response_format, and output_schema sets it: give one of them")
    params = {**params, "response_format": response_format(output_schema)}
    return LlmRequest(request.model_id, request.messages, request.tools_schema, params)


def parse_output(decoded: DecodedResponse, output_schema: type[_M]) -> _M:
    """The validated instance of `output_schema` in the answer's text.

    Strict: one enclosing code fence is tolerated, nothing else is repaired; NaN, infinities, duplicate keys
    and trailing data are invalid JSON.

    Raises:
        OutputSchemaError: when there is none; its `reason` says why.
    """
    text = decoded.text
    if text is None or not text.strip() or decoded.refusal is not None:
        raise _failed(decoded, "no_text", "the answer has no text")
    fenced = _FENCE.fullmatch(text)
    try:
        body = (fenced[1] if fenced else text).encode("utf-8")
        if not _is_plain(body):
            jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise _failed(decoded, "invalid_json", f"the answer is not valid JSON: {_harmless(error)}") from None
    try:
        parsed: _M = output_schema.__pydantic_validator__.validate_json(body)
    except ValidationError as error:
        said = f"the answer violates {output_schema.__name__}: {_summary(error, output_schema)}"
        raise _failed(decoded, "schema_violation", said) from None
    return parsed


def _is_plain(body: bytes) -> bool:
    """Whether `body` is strict JSON for sure: one shallow object without others in it, a colon for each key it kept.

    Each pair has a colon, so that a key that came twice leaves one over. Finding that out by the parser costs twice as
    much; what this cannot tell, such as a colon in a text, is left to it.
    """
    colons = body.count(b":")
    if body.count(b"{") != 1 or body.count(b'":') != colons or body.count(b"[") > _SURELY_SHALLOW:
        return False
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and len(value) == colons


class Verdict:
    """Whether an answer satisfies its output schema; judged once, then remembered."""

    __slots__ = ("_error", "_judged", "_parsed", "_schema")

    def __init__(self, output_schema: type[BaseModel] | None) -> None:
        self._schema = output_schema
        self._judged = output_schema is None
        self._parsed: BaseModel | None = None
        self._error: Exception | None = None

    def satisfied_by(self, decoded: DecodedResponse) -> bool:
        """Judge the answer; nothing is raised yet."""
        if not self._judged and self._schema is not None:
            self._judged = True
            try:
                self._parsed = parse_output(decoded, self._schema)
            except Exception as error:
                self._error = error
        return self._error is None

    def parsed(self, decoded: DecodedResponse) -> BaseModel | None:
        """The validated instance, `None` without a schema. Raises what the judgement found."""
        if not self.satisfied_by(decoded) and self._error is not None:
            raise self._error
        return self._parsed


def _failed(decoded: DecodedResponse, reason: SchemaFailure, message: str) -> OutputSchemaError:
    """What stopped the model explains a failure better than what it left behind."""
    if decoded.refusal is not None or decoded.finish_reason in ("refusal", "content_filter"):
        reason, message = "refused", "the model refused to answer"
    elif decoded.finish_reason == "length":
        reason, message = "truncated", f"the answer was cut at the token limit; raise max_tokens ({message})"
    return OutputSchemaError(
        message, reason=reason, text=decoded.text, usage=decoded.usage, finish_reason=decoded.finish_reason
    )


def _harmless(error: ValueError) -> str:
    """The parser's message without the quoted key that it may hold."""
    if isinstance(error, UnicodeError):
        return "it holds a lone surrogate"
    return re.sub('".*"', "…", str(error), flags=re.DOTALL)


def _summary(error: ValidationError, output_schema: type[BaseModel]) -> str:
    """Where and how the answer fails; of its own words only those that the schema holds too."""
    declared = set(_property_names(response_format(output_schema)))
    found: list[Any] = error.errors(include_url=False, include_input=False, include_context=False)
    named = [f"{_path(one['loc'], declared)}: {one['type']}" for one in found[:_NAMED_ERRORS]]
    more = len(found) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _path(steps: tuple[int | str, ...], declared: set[str]) -> str:
    shown = [str(step) if isinstance(step, int) or step in declared else "…" for step in steps]
    return ".".join(shown) or "(root)"


def _property_names(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        for part in schema.values():
            yield from _property_names(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _property_names(part)
