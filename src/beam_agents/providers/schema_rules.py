"""What each vendor's structured output accepts, as its documentation says.

- OpenAI strict mode: https://platform.openai.com/docs/guides/structured-outputs ("Supported schemas")
- Anthropic: https://platform.claude.com/docs/en/build-with-claude/structured-outputs ("JSON Schema limitations")
- Gemini `responseJsonSchema`: https://ai.google.dev/api/generate-content (`GenerationConfig`)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ANTHROPIC", "GEMINI", "OPENAI", "SchemaRules"]

_STRUCTURE = frozenset({"$defs", "$ref", "anyOf", "enum", "items", "properties", "required", "type"})
_NOTES = frozenset({"title", "description"})
_ISO_FORMATS = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"})


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """One vendor's rules.

    Attributes:
        vendor: name of the vendor.
        keywords: keywords sent as they are; others are translated, or dropped where local validation holds them.
        formats: values of `format` that are sent.
        closed_objects: every object needs `additionalProperties: false`, so maps cannot be asked for.
        all_required: every property must be required.
        root_object: the root must be an object.
        recursion: whether a model may contain itself.
        const: whether `const` is sent; otherwise it becomes an enum of one.
        enum_of_booleans: whether booleans may stand in an enum.
        small_min_items: `minItems` is sent only as 0 or 1.
        max_unions, max_optional, max_properties, max_depth, max_enum_values, max_name_chars: limits, or `None`.
    """

    vendor: str
    keywords: frozenset[str]
    formats: frozenset[str]
    closed_objects: bool
    all_required: bool = False
    root_object: bool = False
    recursion: Literal["allowed", "in_optional_fields", "forbidden"] = "allowed"
    const: bool = True
    enum_of_booleans: bool = True
    small_min_items: bool = False
    max_unions: int | None = None
    max_optional: int | None = None
    max_properties: int | None = None
    max_depth: int | None = None
    max_enum_values: int | None = None
    max_name_chars: int | None = None


OPENAI = SchemaRules(
    vendor="openai",
    keywords=_STRUCTURE
    | _NOTES
    | {"const", "format", "pattern", "maxItems", "minItems", "multipleOf"}
    | {"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"},
    formats=_ISO_FORMATS,
    closed_objects=True,
    all_required=True,
    root_object=True,
    max_properties=5_000,
    max_depth=10,
    max_enum_values=1_000,
    max_name_chars=120_000,
)

ANTHROPIC = SchemaRules(
    vendor="anthropic",
    keywords=_STRUCTURE | _NOTES | {"const", "format", "minItems"},
    formats=_ISO_FORMATS | {"uri"},
    closed_objects=True,
    recursion="forbidden",
    small_min_items=True,
    max_unions=16,
    max_optional=24,
)

GEMINI = SchemaRules(
    vendor="gemini",
    keywords=_STRUCTURE | _NOTES | {"format", "maxItems", "minItems", "maximum", "minimum", "prefixItems"},
    formats=frozenset({"date", "date-time", "time"}),
    closed_objects=False,
    recursion="in_optional_fields",
    const=False,
    enum_of_booleans=False,
)
