"""A model's schema under each vendor's rules."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model

from beam_agents.errors import SchemaNotExpressibleError
from beam_agents.providers import schema_report
from beam_agents.providers.schema_rules import ANTHROPIC, GEMINI, OPENAI, SchemaRules
from beam_agents.providers.structured_output import openai_response_format, vendor_schema
from beam_agents.providers.wire_schema import WireSchema

ALL = [OPENAI, ANTHROPIC, GEMINI]
by_vendor = pytest.mark.parametrize("rules", ALL, ids=lambda rules: rules.vendor)


def written(model: type[BaseModel], rules: SchemaRules) -> WireSchema:
    return vendor_schema(model.model_json_schema(), rules)


def refused(model: type[BaseModel], rules: SchemaRules) -> SchemaNotExpressibleError:
    with pytest.raises(SchemaNotExpressibleError) as caught:
        written(model, rules)
    return caught.value


class Level(Enum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    street: str
    number: int = 1


class Person(BaseModel):
    name: str = Field(min_length=1, max_length=40, description="Full name.")
    age: int = Field(ge=0, le=150)
    nick: str | None = None
    level: Level = Level.LOW
    kind: Literal["a", "b"]
    home: Address = Field(description="where")
    work: Address | None = None
    tags: list[str] = Field(default_factory=list, max_length=5)
    born: date
    seen: datetime
    key: UUID
    paid: Decimal


class Cat(BaseModel):
    type: Literal["cat"]
    lives: int


class Dog(BaseModel):
    type: Literal["dog"]
    good: Literal[True]


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="type")


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Pair(BaseModel):
    left: Pair | None
    value: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Scores(BaseModel):
    by_name: dict[str, float]


class Anything(BaseModel):
    payload: Any


class Names(RootModel[list[str]]):
    pass


class Either(RootModel[Cat | Dog]):
    pass


class Place(BaseModel):
    at: tuple[float, float]
    mixed: tuple[str, int]


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    first: str = Field(alias="First-Name")


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    inside: T


class Odd(BaseModel):
    flag: Literal[True, "maybe", 3, None]
    even: Annotated[int, Field(multiple_of=2)]
    code: str = Field(pattern=r"^[A-Z]{3}$")
    strange: str = Field(json_schema_extra={"x-note": "mine", "pattern": r"^(?!x)y"})
    link: str = Field(json_schema_extra={"format": "uri"})


def objects(schema: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(schema, dict):
        found += [schema] if "properties" in schema else []
        for value in schema.values():
            found += objects(value)
    if isinstance(schema, list):
        for value in schema:
            found += objects(value)
    return found


def keywords(schema: Any) -> set[str]:
    """The keywords of a schema, without the names of properties and definitions."""
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for keyword, value in schema.items():
        if keyword in ("properties", "$defs"):
            found |= set().union(set(), *map(keywords, value.values()))
        elif keyword not in ("enum", "const", "required"):
            found |= keywords(value)
    return found


@by_vendor
@pytest.mark.parametrize("model", [Person, Owner, Open, Closed, Place, Aliased, Odd, Box[int], Box[Person]])
def test_only_what_the_vendor_takes_is_sent(model: type[BaseModel], rules: SchemaRules):
    wire = written(model, rules).schema
    assert keywords(wire) <= rules.keywords | ({"additionalProperties"})
    for schema in objects(wire):
        if rules.closed_objects:
            assert schema["additionalProperties"] is False
        if rules.all_required:
            assert schema["required"] == list(schema["properties"])


@by_vendor
def test_references_stand_alone_and_lead_to_a_definition(rules: SchemaRules):
    wire = written(Person, rules).schema
    assert wire["properties"]["home"] == {"$ref": "#/$defs/Address"}
    assert set(wire["$defs"]) == {"Address", "Level"}


def test_openai_requires_optional_fields_and_says_so():
    report = written(Person, OPENAI)
    assert "nick" in report.schema["required"]
    assert ("nick", "required") in {(difference.field, difference.keyword) for difference in report.differences}
    assert ("Address.number", "required") in {(one.field, one.keyword) for one in report.differences}


@pytest.mark.parametrize("rules", [ANTHROPIC, GEMINI], ids=lambda rules: rules.vendor)
def test_others_leave_optional_fields_optional(rules: SchemaRules):
    assert "nick" not in written(Person, rules).schema["required"]


@by_vendor
def test_what_is_dropped_is_noted_and_told_to_the_model(rules: SchemaRules):
    report = written(Person, rules)
    name = report.schema["properties"]["name"]
    assert "minLength" not in name
    assert name["description"].startswith("Full name.")
    assert "minLength: 1" in name["description"]
    assert "maxLength: 40" in name["description"]
    assert ("name", "minLength") in {(one.field, one.keyword) for one in report.differences}


@by_vendor
def test_formats(rules: SchemaRules):
    properties = written(Person, rules).schema["properties"]
    assert properties["born"]["format"] == "date"
    assert properties["seen"]["format"] == "date-time"
    assert ("format" in properties["key"]) == (rules is not GEMINI)


def test_numbers_keep_their_bounds_where_the_vendor_takes_them():
    assert written(Person, OPENAI).schema["properties"]["age"]["maximum"] == 150
    assert written(Person, GEMINI).schema["properties"]["age"]["maximum"] == 150
    assert "maximum" not in written(Person, ANTHROPIC).schema["properties"]["age"]


@by_vendor
def test_a_decimal_is_a_number_or_a_string_without_a_lookaround(rules: SchemaRules):
    branches = written(Person, rules).schema["properties"]["paid"]["anyOf"]
    assert [branch["type"] for branch in branches] == ["number", "string"]
    assert "pattern" not in branches[1]


@by_vendor
def test_discriminated_unions_become_any_of(rules: SchemaRules):
    pet = written(Owner, rules).schema["properties"]["pet"]
    assert pet == {
        "anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        **({"title": "Pet"} if "title" in pet else {}),
    }


def test_const_and_enums_of_booleans():
    assert written(Owner, OPENAI).schema["$defs"]["Cat"]["properties"]["type"]["const"] == "cat"
    cat = written(Owner, GEMINI).schema["$defs"]["Cat"]["properties"]["type"]
    assert (cat["type"], cat["enum"]) == ("string", ["cat"])
    good = written(Owner, GEMINI).schema["$defs"]["Dog"]["properties"]["good"]
    assert good["type"] == "boolean"
    assert "enum" not in good


@by_vendor
def test_an_enum_of_several_types_becomes_one_branch_each(rules: SchemaRules):
    branches = written(Odd, rules).schema["properties"]["flag"]["anyOf"]
    assert [branch["type"] for branch in branches] == ["boolean", "string", "integer", "null"]


def test_patterns_and_formats_that_the_vendor_refuses_are_dropped():
    properties = written(Odd, OPENAI).schema["properties"]
    assert properties["code"]["pattern"] == "^[A-Z]{3}$"
    assert "pattern" not in properties["strange"]
    assert "format" not in properties["link"]
    assert written(Odd, ANTHROPIC).schema["properties"]["link"]["format"] == "uri"


@by_vendor
def test_tuples(rules: SchemaRules):
    place = written(Place, rules).schema["properties"]
    if rules is GEMINI:
        assert place["mixed"]["prefixItems"] == [{"type": "string"}, {"type": "integer"}]
    else:
        assert place["at"]["items"] == {"type": "number"}
        assert place["mixed"]["items"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}


@by_vendor
def test_extra_fields(rules: SchemaRules):
    report = written(Open, rules)
    assert report.schema["additionalProperties"] is (rules is GEMINI)
    assert ("$", "additionalProperties") in {(one.field, one.keyword) for one in report.differences} or rules is GEMINI


@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=lambda rules: rules.vendor)
def test_a_map_is_refused_by_name(rules: SchemaRules):
    error = refused(Scores, rules)
    assert (error.vendor, error.field) == (rules.vendor, "by_name")
    assert "map" in error.reason


def test_a_map_is_sent_to_gemini():
    assert written(Scores, GEMINI).schema["properties"]["by_name"]["additionalProperties"] == {"type": "number"}


@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=lambda rules: rules.vendor)
def test_any_value_is_refused_by_name(rules: SchemaRules):
    assert refused(Anything, rules).field == "payload"


def test_recursion():
    assert written(Node, OPENAI).schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert written(Node, OPENAI).schema["type"] == "object"
    assert written(Node, GEMINI).schema["$defs"]
    assert refused(Node, ANTHROPIC).field == "Node.children"
    assert refused(Pair, GEMINI).field == "Pair.left"


def test_root_lists_and_unions():
    assert refused(Names, OPENAI).field == "$"
    assert refused(Either, OPENAI).field == "$"
    assert written(Names, GEMINI).schema["items"] == {"type": "string"}
    assert written(Names, ANTHROPIC).schema["type"] == "array"


def test_a_keyword_that_nothing_holds_is_refused():
    class Negated(BaseModel):
        a: str = Field(json_schema_extra={"not": {"const": "x"}})

    for rules in ALL:
        assert refused(Negated, rules).field == "a"


def test_anthropic_leaves_nulls_out_where_there_would_be_too_many_unions():
    fields: dict[str, Any] = {f"f{at}": (str | None, None) for at in range(20)}
    report = written(create_model("Many", **fields), ANTHROPIC)
    assert report.schema["properties"]["f0"]["type"] == "string"
    assert ("f0", "anyOf") in {(one.field, one.keyword) for one in report.differences}
    required: dict[str, Any] = dict.fromkeys(fields, (str | None, ...))
    error = refused(create_model("Needed", **required), ANTHROPIC)
    assert "16" in error.reason


def test_anthropic_always_asks_for_fields_where_there_would_be_too_many_optional_ones():
    fields: dict[str, Any] = {f"f{at}": (int, 0) for at in range(25)}
    report = written(create_model("Wide", **fields), ANTHROPIC)
    assert report.schema["required"] == list(fields)
    assert ("f0", "required") in {(one.field, one.keyword) for one in report.differences}


def test_limits():
    wide: dict[str, Any] = {f"f{at}": (str | None, None) for at in range(25)}
    assert "25 optional fields" in refused(create_model("Wide", **wide), ANTHROPIC).reason
    deep: Any = int
    for at in range(11):
        deep = create_model(f"Deep{at}", below=(deep, ...))
    assert "11 levels" in refused(deep, OPENAI).reason
    many = Enum("Many", {f"v{at}": f"v{at}" for at in range(1001)})
    assert "1001 enum values" in refused(create_model("Wordy", word=(many, ...)), OPENAI).reason  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("name", "legal"),
    [("Box[int]", "Box_int"), ("", "answer"), ("ÄÖ", "answer"), ("ok-1_x", "ok-1_x")],
)
def test_names_are_legal(name: str, legal: str):
    schema = {"type": "object", "properties": {}}
    given = {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}
    assert openai_response_format(given)["json_schema"]["name"] == legal


def test_long_names_stay_different():
    def legal(name: str) -> str:
        given = {"type": "json_schema", "json_schema": {"name": name, "schema": {"type": "object"}}}
        return str(openai_response_format(given)["json_schema"]["name"])

    assert legal("x" * 80) != legal("x" * 81)
    assert len(legal("x" * 80)) == 64


def test_a_schema_that_is_not_strict_is_left_alone():
    given = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array", "default": []}}}
    assert openai_response_format(given)["json_schema"]["schema"] == {"type": "array", "default": []}


def test_the_schema_is_computed_once():
    schema = Person.model_json_schema()
    assert vendor_schema(schema, OPENAI) is vendor_schema(Person.model_json_schema(), OPENAI)
    assert vendor_schema(schema, OPENAI) is not vendor_schema(schema, GEMINI)


def test_the_report_names_model_and_vendor():
    report = schema_report(Person, "anthropic:claude")
    assert report.schema["type"] == "object"
    assert {"name", "age"} <= {one.field for one in report.differences}
    with pytest.raises(ValueError, match="known are anthropic, gemini, openai"):
        schema_report(Person, "acme:model")


def test_the_error_pickles_and_is_a_value_error():
    error = refused(Scores, OPENAI)
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, ValueError)
    assert (copy.vendor, copy.field, copy.reason, str(copy)) == (error.vendor, error.field, error.reason, str(error))
