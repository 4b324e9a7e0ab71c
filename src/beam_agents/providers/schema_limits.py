"""Limits of a vendor's structured output: recursion, size, depth, unions, optional fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from beam_agents.errors import SchemaNotExpressibleError
from beam_agents.providers.schema_rules import SchemaRules

__all__ = ["check_limits", "check_recursion", "exceeds", "optional_count", "union_count"]

_DEFS = "#/$defs/"


def check_recursion(schema: Mapping[str, Any], rules: SchemaRules) -> None:
    """Refuses a model that contains itself where the vendor cannot take it.

    Raises:
        SchemaNotExpressibleError: names a field on the way around.
    """
    if rules.recursion == "allowed":
        return
    defs = schema.get("$defs", {})
    only_required = rules.recursion == "in_optional_fields"
    edges = {name: list(_references(value, name, only_required)) for name, value in defs.items()}
    for start in edges:
        field = _way_around(start, edges)
        if field is not None:
            reason = "the model contains itself"
            if only_required:
                reason += " in a required field; give the field a default"
            raise SchemaNotExpressibleError(rules.vendor, field, f"{reason}, which this vendor does not accept")


def _way_around(start: str, edges: Mapping[str, list[tuple[str, str]]]) -> str | None:
    seen: set[str] = set()
    waiting = [(target, field) for target, field in edges[start]]
    while waiting:
        target, field = waiting.pop()
        if target == start:
            return field
        if target not in seen:
            seen.add(target)
            waiting.extend((further, field) for further, _ in edges.get(target, ()))
    return None


def _references(schema: Any, at: str, only_required: bool) -> Iterator[tuple[str, str]]:
    """Every definition that `schema` refers to, and the field that does."""
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item, at, only_required)
    if not isinstance(schema, Mapping):
        return
    if isinstance(schema.get("$ref"), str):
        yield schema["$ref"].removeprefix(_DEFS), at
    required = schema.get("required", ())
    for keyword, value in schema.items():
        if keyword != "properties":
            yield from _references(value, at, only_required)
            continue
        for name, below in value.items():
            if not only_required or name in required:
                yield from _references(below, f"{at}.{name}", only_required)


def union_count(schema: Any) -> int:
    """How many places of `schema` admit more than one type."""
    if isinstance(schema, list):
        return sum(map(union_count, schema))
    if not isinstance(schema, Mapping):
        return 0
    own = 1 if isinstance(schema.get("anyOf"), list) or isinstance(schema.get("type"), list) else 0
    return own + sum(map(union_count, schema.values()))


def optional_count(schema: Any) -> int:
    """How many fields of `schema` may be left out."""
    objects = (node for node in _nodes(schema) if isinstance(node.get("properties"), Mapping))
    return sum(len(set(node["properties"]) - set(node.get("required", ()))) for node in objects)


def exceeds(found: int, limit: int | None) -> bool:
    """Whether `found` is above a limit that exists."""
    return limit is not None and found > limit


def check_limits(schema: Mapping[str, Any], rules: SchemaRules) -> None:
    """Refuses a schema larger than the vendor takes.

    Raises:
        SchemaNotExpressibleError: names the limit.
    """
    nodes = list(_nodes(schema))
    objects = [node for node in nodes if isinstance(node.get("properties"), Mapping)]
    enums = [node["enum"] for node in nodes if isinstance(node.get("enum"), list)]
    names = [name for node in objects for name in node["properties"]] + list(schema.get("$defs", ()))
    words = [str(value) for values in enums for value in values] + [
        str(node["const"]) for node in nodes if "const" in node
    ]
    for what, found, limit in (
        ("fields that may be one of several types", union_count(schema), rules.max_unions),
        ("optional fields", optional_count(schema), rules.max_optional),
        ("fields", sum(len(node["properties"]) for node in objects), rules.max_properties),
        ("enum values", sum(map(len, enums)), rules.max_enum_values),
        ("characters in names and enum values", sum(map(len, names + words)), rules.max_name_chars),
        ("levels of nesting", _depth(schema, schema.get("$defs", {}), rules.max_depth), rules.max_depth),
    ):
        if exceeds(found, limit):
            raise SchemaNotExpressibleError(
                rules.vendor, "$", f"it has {found} {what}, at most {limit} are accepted; split the model"
            )


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, list):
        for item in schema:
            yield from _nodes(item)
    elif isinstance(schema, Mapping):
        yield schema
        for keyword, value in schema.items():
            if keyword in ("properties", "$defs"):
                for below in value.values():
                    yield from _nodes(below)
            elif keyword not in ("enum", "const", "required"):
                yield from _nodes(value)


def _depth(schema: Any, defs: Mapping[str, Any], limit: int | None, around: frozenset[str] = frozenset()) -> int:
    """Levels of objects inside each other; a model inside itself counts once."""
    if limit is None:
        return 0
    if isinstance(schema, list):
        return max((_depth(item, defs, limit, around) for item in schema), default=0)
    if not isinstance(schema, Mapping):
        return 0
    ref = schema.get("$ref")
    if isinstance(ref, str):
        name = ref.removeprefix(_DEFS)
        return 0 if name in around else _depth(defs.get(name), defs, limit, around | {name})
    below = [value for keyword, value in schema.items() if keyword in ("items", "anyOf", "additionalProperties")]
    below += list(schema.get("properties", {}).values())
    deepest = max((_depth(value, defs, limit, around) for value in below), default=0)
    return deepest + (1 if "properties" in schema else 0)
