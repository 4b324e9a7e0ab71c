"""From the neutral `response_format` to each vendor's own; computed once for each schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from beam_agents.errors import SchemaNotExpressibleError
from beam_agents.providers.json_body import dump_body, dump_text, parse_body
from beam_agents.providers.schema_rules import OPENAI, SchemaRules
from beam_agents.providers.wire_schema import WireSchema, write_schema
from beam_agents.values import LlmRequest

__all__ = ["json_schema_of", "openai_response_format", "required_schema", "schema_in_prompt", "vendor_schema"]

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")


def json_schema_of(response_format: Any) -> Mapping[str, Any] | None:
    """The schema inside a neutral `response_format`, or `None` when it asks for none."""
    if not isinstance(response_format, Mapping) or response_format.get("type") != "json_schema":
        return None
    wrapped = response_format.get("json_schema")
    schema = wrapped.get("schema") if isinstance(wrapped, Mapping) else None
    return schema if isinstance(schema, Mapping) else None


def vendor_schema(schema: Mapping[str, Any], rules: SchemaRules) -> WireSchema:
    """`schema` under a vendor's rules, computed once. Do not change what it returns.

    Raises:
        SchemaNotExpressibleError: for what the vendor cannot be asked for.
    """
    return _written(dump_body(schema), rules)


@lru_cache(maxsize=512)
def _written(schema: bytes, rules: SchemaRules) -> WireSchema:
    return write_schema(parse_body(schema, exact=True), rules)


def openai_response_format(response_format: Any) -> Any:
    """OpenAI's `response_format`: strict schemas under the rules of strict mode, others untouched."""
    schema = json_schema_of(response_format)
    if schema is None:
        return response_format
    wrapped = dict(response_format["json_schema"])
    wrapped["name"] = _legal_name(str(wrapped.get("name") or schema.get("title") or "answer"))
    if wrapped.get("strict"):
        wrapped["schema"] = vendor_schema(schema, OPENAI).schema
    return {**response_format, "json_schema": wrapped}


def _legal_name(name: str) -> str:
    legal = _ILLEGAL.sub("_", name).strip("_") or "answer"
    if len(legal) <= 64:
        return legal
    return f"{legal[:55]}_{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def schema_in_prompt(request: LlmRequest) -> LlmRequest:
    """The request with its schema in the words of a system message instead of `response_format`."""
    params, messages = request.sampling_params or {}, request.messages
    schema = json_schema_of(params.get("response_format"))
    if schema is None:
        return request
    told = {
        "role": "system",
        "content": "Answer with one JSON value and nothing else: no prose, no code fence. "
        f"It must satisfy this JSON schema:\n{dump_text(schema)}",
    }
    lead = next(
        (at for at, message in enumerate(messages) if message.get("role") not in ("system", "developer")), len(messages)
    )
    rest = {name: value for name, value in params.items() if name != "response_format"}
    return replace(request, messages=[*messages[:lead], told, *messages[lead:]], sampling_params=rest)


def required_schema(response_format: Any, rules: SchemaRules) -> dict[str, Any] | None:
    """The wire schema for a vendor that knows only schemas; `None` when plain text is asked for.

    Raises:
        SchemaNotExpressibleError: also for `json_object`, which has no schema.
    """
    schema = json_schema_of(response_format)
    if schema is not None:
        return vendor_schema(schema, rules).schema
    if response_format is None or (isinstance(response_format, Mapping) and response_format.get("type") == "text"):
        return None
    raise SchemaNotExpressibleError(rules.vendor, "$", "response_format must be of type json_schema or text")
