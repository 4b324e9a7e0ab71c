"""A Pydantic model's JSON schema, written under a vendor's rules.

What a vendor refuses is dropped only where the model's own validation of the answer still holds it, and then
told to the model in the field's description. What cannot be asked for at all is an error that names the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from beam_agents.errors import SchemaNotExpressibleError
from beam_agents.providers.schema_limits import check_limits, check_recursion, exceeds, optional_count, union_count
from beam_agents.providers.schema_rules import SchemaRules

__all__ = ["SchemaDifference", "WireSchema", "write_schema"]

# Pydantic enforces these itself, so the answer is still held to them when the wire does not carry them.
_HELD_LOCALLY = (
    *("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "propertyNames"),
)
_NO_EQUIVALENT = (
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "contains", "minContains"),
    *("maxContains", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef"),
)
_LOOKAROUND = re.compile(r"\(\?[=!<P]|\\[1-9]")
_DEFS = "#/$defs/"


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One way in which the wire schema differs from the model's own: where, which keyword, and what it became."""

    field: str
    keyword: str
    change: str


@dataclass(frozen=True, slots=True)
class WireSchema:
    """A schema as a vendor takes it, and every difference from the model's own."""

    schema: dict[str, Any]
    differences: tuple[SchemaDifference, ...]


def write_schema(schema: Mapping[str, Any], rules: SchemaRules) -> WireSchema:
    """`schema` under the rules of a vendor.

    Raises:
        SchemaNotExpressibleError: for what cannot be asked for; names the field and the reason.
    """
    check_recursion(schema, rules)
    written = _Writer(rules).write(schema)
    if exceeds(union_count(written.schema), rules.max_unions) or exceeds(
        optional_count(written.schema), rules.max_optional
    ):
        written = _Writer(rules, tight=True).write(schema)
    check_limits(written.schema, rules)
    return written


@dataclass(slots=True)
class _Writer:
    rules: SchemaRules
    tight: bool = False
    differences: list[SchemaDifference] = field(default_factory=list)

    def write(self, schema: Mapping[str, Any]) -> WireSchema:
        root = {name: value for name, value in schema.items() if name != "$defs"}
        defs = schema.get("$defs", {})
        if "$ref" in root:
            name = self._target(root["$ref"], "$")
            root = dict(defs.get(name) or self._refuse("$", f"the schema has no definition {name!r}"))
        if self.rules.root_object and root.get("type") != "object":
            self._refuse("$", "the root must be an object; put the value into a model with one field")
        wire = self.node(root, "")
        if defs:
            wire["$defs"] = {name: self.node(definition, name) for name, definition in defs.items()}
        return WireSchema(wire, tuple(self.differences))

    def node(self, schema: Any, at: str) -> dict[str, Any]:
        """One schema and all below it."""
        if not isinstance(schema, Mapping):
            schema = {} if schema is True else {"not": {}}
        for keyword in _NO_EQUIVALENT:
            if keyword in schema:
                self._refuse(at, f"{keyword!r} has no equivalent; use a simpler type")
        if "$ref" in schema:
            return self._reference(schema, at)
        if "allOf" in schema:
            return self._all_of(schema, at)
        if "oneOf" in schema or "anyOf" in schema:
            return self._union(schema, at)
        if "enum" in schema or "const" in schema:
            return self._enumeration(schema, at)
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._union({"anyOf": [{**schema, "type": one} for one in kind]}, at)
        if kind is None and self.rules.closed_objects:
            self._refuse(at, "any value is allowed here; give the field a type")
        wire = self._kept(schema, at)
        if kind == "object":
            self._fill_object(wire, schema, at)
        elif kind == "array":
            self._fill_array(wire, schema, at)
        return wire

    def _reference(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        self._target(schema["$ref"], at)
        for keyword in schema:
            if keyword != "$ref":
                self._note(at, keyword, "dropped: nothing may stand beside $ref")
        return {"$ref": schema["$ref"]}

    def _target(self, ref: str, at: str) -> str:
        if not ref.startswith(_DEFS):
            self._refuse(at, f"the reference {ref!r} leads outside the schema")
        return ref.removeprefix(_DEFS).replace("~1", "/").replace("~0", "~")

    def _all_of(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        parts = schema["allOf"]
        if len(parts) != 1:
            self._refuse(at, "'allOf' of several schemas has no equivalent; use one model")
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        return self.node({**rest, **parts[0]}, at)

    def _union(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        keyword = "anyOf" if "anyOf" in schema else "oneOf"
        rest = {
            name: value for name, value in schema.items() if name not in ("anyOf", "oneOf", "discriminator", "type")
        }
        if keyword == "oneOf":
            self._note(at, "oneOf", "sent as anyOf; that exactly one fits is not sent; the answer is still checked")
        branches = [self.node(branch, at) for branch in schema[keyword]]
        wire = self._kept(rest, at)
        if len(branches) == 1:
            return {**wire, **branches[0]}
        return {**wire, "anyOf": branches}

    def _enumeration(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if any(isinstance(value, (dict, list)) for value in values):
            self._refuse(at, "an enum may hold only strings, numbers, booleans and null")
        by_type: dict[str, list[Any]] = {}
        for value in values:
            by_type.setdefault(_type_of(value), []).append(value)
        if len(by_type) > 1:
            rest = {name: value for name, value in schema.items() if name not in ("enum", "const", "type")}
            return self._union({**rest, "anyOf": [{"enum": group} for group in by_type.values()]}, at)
        kind = next(iter(by_type), "string")
        rest = {name: value for name, value in schema.items() if name not in ("enum", "const", *_HELD_LOCALLY)}
        wire = {**self._kept(rest, at), "type": kind}
        if kind == "null":
            return wire
        if kind == "boolean" and not self.rules.enum_of_booleans:
            self._note(at, "enum", f"{json.dumps(values)} is not sent; the answer is still checked")
        elif "const" in schema and self.rules.const:
            wire["const"] = schema["const"]
        else:
            wire["enum"] = list(values)
        return wire

    def _fill_object(self, wire: dict[str, Any], schema: Mapping[str, Any], at: str) -> None:
        extra = schema.get("additionalProperties")
        if "patternProperties" in schema:
            self._note(at, "patternProperties", "the form of the keys is not sent; the answer is still checked")
            extra = {"anyOf": list(schema["patternProperties"].values())}
        if self.rules.closed_objects:
            if "properties" not in schema:
                self._refuse(at, "a map with free keys cannot be asked for; use a list of objects with key and value")
            if extra not in (None, False):
                self._note(at, "additionalProperties", "extra fields are not asked for")
            wire["additionalProperties"] = False
        elif extra is not None:
            wire["additionalProperties"] = extra if isinstance(extra, bool) else self.node(extra, f"{at}{{}}")
        if "properties" in schema:
            self._fill_properties(wire, schema, at)

    def _fill_properties(self, wire: dict[str, Any], schema: Mapping[str, Any], at: str) -> None:
        required = list(schema.get("required", ()))
        written = {}
        for name, value in schema["properties"].items():
            where = f"{at}.{name}" if at else name
            asked_for = self.rules.all_required
            if self.tight and name not in required:
                narrowed = self._without_null(value, where)
                asked_for = narrowed is value
                value = narrowed
            written[name] = self.node(value, where)
            if asked_for and name not in required:
                required.append(name)
                self._note(where, "required", "the model must always give this field")
        wire["properties"] = written
        wire["required"] = [name for name in written if name in required]

    def _without_null(self, schema: Any, at: str) -> Any:
        branches = schema.get("anyOf") if isinstance(schema, Mapping) else None
        if not branches or {"type": "null"} not in branches or schema.get("default", 0) is not None:
            return schema
        self._note(at, "anyOf", "null is not asked for: the model leaves the field out instead")
        return {**schema, "anyOf": [branch for branch in branches if branch != {"type": "null"}]}

    def _fill_array(self, wire: dict[str, Any], schema: Mapping[str, Any], at: str) -> None:
        places = schema.get("prefixItems")
        if places is not None and "prefixItems" in self.rules.keywords:
            wire["prefixItems"] = [self.node(place, f"{at}[{index}]") for index, place in enumerate(places)]
        elif places:
            self._note(
                at,
                "prefixItems",
                "sent as items of any of these types; the order is not sent; the answer is still checked",
            )
            kinds: list[dict[str, Any]] = []
            for index, place in enumerate(places):
                if (kind := self.node(place, f"{at}[{index}]")) not in kinds:
                    kinds.append(kind)
            wire["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        if "items" in schema and schema["items"] is not False and "items" not in wire:
            wire["items"] = self.node(schema["items"], f"{at}[]")
        elif "items" not in wire and self.rules.closed_objects:
            self._refuse(at, "the type of the list's items is open; give it one, such as list[str]")

    def _kept(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        """The keywords of `schema` that go out as they are; the others noted, constraints told in the description."""
        handled = {"properties", "required", "additionalProperties", "patternProperties", "items", "prefixItems"}
        wire: dict[str, Any] = {}
        told: list[str] = []
        for keyword, value in schema.items():
            if keyword in handled or (keyword == "default" and value is None):
                continue
            if keyword in self.rules.keywords and self._accepts(keyword, value):
                wire[keyword] = value
            elif keyword in _HELD_LOCALLY:
                self._note(at, keyword, f"{json.dumps(value)} is not sent; the answer is still checked")
                told.append(f"{keyword}: {value}")
            else:
                self._note(at, keyword, "dropped: it does not narrow the answer")
        if told:
            wire["description"] = " ".join([*filter(None, [wire.get("description")]), f"({', '.join(told)})"])
        return wire

    def _accepts(self, keyword: str, value: Any) -> bool:
        if keyword == "format":
            return value in self.rules.formats
        if keyword == "pattern":
            return not _LOOKAROUND.search(value)
        if keyword == "minItems" and self.rules.small_min_items:
            return value in (0, 1)
        return True

    def _note(self, at: str, keyword: str, change: str) -> None:
        difference = SchemaDifference(at or "$", keyword, change)
        if difference not in self.differences:
            self.differences.append(difference)

    def _refuse(self, at: str, reason: str) -> Any:
        raise SchemaNotExpressibleError(self.rules.vendor, at or "$", reason)


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"
