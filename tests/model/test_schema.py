"""Output schemas: what is sent, what is accepted, why an answer fails, and what a message may show."""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model, field_validator

from beam_agents.errors import OutputSchemaError
from beam_agents.model.schema import Verdict, fold, parse_output, response_format
from beam_agents.values import DecodedResponse, LlmRequest, TokenUsage

USAGE = TokenUsage(10, 5, 15)


def said(text: str | None, **more: Any) -> DecodedResponse:
    return DecodedResponse(usage=USAGE, text=text, **more)


def failure(text: str | None, schema: type[BaseModel], **more: Any) -> OutputSchemaError:
    with pytest.raises(OutputSchemaError) as caught:
        parse_output(said(text, **more), schema)
    return caught.value


class Label(BaseModel):
    label: str
    score: int = Field(ge=0, le=10)


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Address(BaseModel):
    city: str


class Order(BaseModel):
    billing: Address
    shipping: Address


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    content: T


class Labels(RootModel[list[Label]]):
    pass


class Many(BaseModel):
    maybe: str | None = None
    tone: Literal["warm", "cold"] = "warm"
    priority: Priority = Priority.LOW
    either: int | str = 0
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    counts: dict[str, int] = {}
    price: Decimal = Decimal(0)
    day: datetime.date | None = None
    at: datetime.datetime | None = None
    id: uuid.UUID | None = None
    name: str = Field(default="", max_length=5, alias="displayName")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


# What is accepted

CASES: dict[str, tuple[type[BaseModel], str, Callable[[Any], Any], Any]] = {
    "optional absent": (Many, "{}", lambda m: m.maybe, None),
    "optional null": (Many, '{"maybe": null}', lambda m: m.maybe, None),
    "default": (Many, "{}", lambda m: (m.tone, m.priority), ("warm", Priority.LOW)),
    "literal": (Many, '{"tone": "cold"}', lambda m: m.tone, "cold"),
    "enum of ints": (Many, '{"priority": 2}', lambda m: m.priority, Priority.HIGH),
    "union of scalars": (Many, '{"either": "5"}', lambda m: m.either, "5"),
    "discriminated union": (Many, '{"pet": {"kind": "dog", "tricks": ["sit"]}}', lambda m: m.pet.tricks, ["sit"]),
    "dict of values": (Many, '{"counts": {"a": 1, "b": 2}}', lambda m: m.counts, {"a": 1, "b": 2}),
    "decimal as text": (Many, '{"price": "1.10"}', lambda m: str(m.price), "1.10"),
    "date": (Many, '{"day": "2024-02-29"}', lambda m: m.day, datetime.date(2024, 2, 29)),
    "time": (Many, '{"at": "2024-02-29T01:02:03Z"}', lambda m: m.at.isoformat(), "2024-02-29T01:02:03+00:00"),
    "uuid": (Many, f'{{"id": "{uuid.UUID(int=7)}"}}', lambda m: m.id, uuid.UUID(int=7)),
    "alias": (Many, '{"displayName": "Zoë"}', lambda m: m.name, "Zoë"),
    "recursive": (Node, '{"value": 1, "children": [{"value": 2}]}', lambda m: m.children[0].value, 2),
    "one model twice": (
        Order,
        '{"billing": {"city": "A"}, "shipping": {"city": "B"}}',
        lambda m: (m.billing.city, m.shipping.city),
        ("A", "B"),
    ),
    "generic": (Box[int], '{"content": 5}', lambda m: m.content, 5),
    "root list": (Labels, '[{"label": "x", "score": 1}]', lambda m: m.root[0].label, "x"),
    "extra allowed": (Open, '{"a": 1, "b": [2]}', lambda m: m.b, [2]),
    "int of 400 digits": (Box[int], f'{{"content": {"9" * 400}}}', lambda m: m.content, int("9" * 400)),
    "text beyond the basic plane": (Box[str], '{"content": "\\ud83d\\ude00é"}', lambda m: m.content, "😀é"),
    "space around": (Box[int], ' \n\t{"content": 5}\r\n ', lambda m: m.content, 5),
    "fence": (Box[int], '```json\n{"content": 5}\n```', lambda m: m.content, 5),
    "fence without a language": (Box[int], '```\n{"content": 5}\n```', lambda m: m.content, 5),
    "fence in one line": (Box[int], '```{"content": 5}```', lambda m: m.content, 5),
    "fence with space around": (Box[int], '\n ```JSON \r\n{"content": 5}\r\n``` \n', lambda m: m.content, 5),
    "backticks inside a string": (
        Box[str],
        '```json\n{"content": "a ```b``` c"}\n```',
        lambda m: m.content,
        "a ```b``` c",
    ),
    "backticks without a fence": (Box[str], '{"content": "```json"}', lambda m: m.content, "```json"),
}


@pytest.mark.parametrize("name", CASES)
def test_accepted(name):
    schema, text, read, expected = CASES[name]
    parsed = parse_output(said(text), schema)
    assert isinstance(parsed, schema)
    assert read(parsed) == expected


def test_a_whole_answer_is_accepted_whatever_stopped_the_model():
    assert parse_output(said('{"content": 1}', finish_reason="length"), Box[int]).content == 1


# What is not

NOT_JSON = {
    "prose": "The label is spam.",
    "trailing prose": '{"label": "a", "score": 1} Hope this helps!',
    "leading prose": 'Sure: {"label": "a", "score": 1}',
    "two values": '{"label": "a", "score": 1}{"label": "a", "score": 1}',
    "cut": '{"label": "a", "sco',
    "duplicate keys": '{"label": "a", "label": "b", "score": 1}',
    "duplicate keys, one escaped": '{"label": "a", "\\u006cabel": "b", "score": 1}',
    "nested duplicate keys": '{"label": "a", "score": 1, "x": [{"k": 1, "k": 1}]}',
    "NaN": '{"label": "a", "score": NaN}',
    "Infinity": '{"label": "a", "score": -Infinity}',
    "single quotes": "{'label': 'a', 'score': 1}",
    "trailing comma": '{"label": "a", "score": 1,}',
    "comment": '{"label": "a", /* why */ "score": 1}',
    "unclosed fence": '```json\n{"label": "a", "score": 1}',
    "two fences": '```json\n{"label": "a", "score": 1}\n```\n```json\n{"label": "a", "score": 1}\n```',
    "fence with prose before": 'Here:\n```json\n{"label": "a", "score": 1}\n```',
    "fence with prose after": '```json\n{"label": "a", "score": 1}\n```\nDone.',
    "empty fence": "```json\n```",
    "other fence": '~~~json\n{"label": "a", "score": 1}\n~~~',
    "byte order mark": '\ufeff{"label": "a", "score": 1}',
    "lone surrogate": '{"label": "\ud83d", "score": 1}',
    "escaped lone surrogate": '{"label": "\\ud83d", "score": 1}',
    "too deep": "[" * 500 + "]" * 500,
    "too deep in a flat object": '{"label": "a", "score": 1, "x": ' + "[" * 500 + "]" * 500 + "}",
    "int of 5,000 digits": '{"label": "a", "score": ' + "9" * 5_000 + "}",
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_what_is_not_exactly_one_json_value_is_invalid_json(name):
    error = failure(NOT_JSON[name], Label)
    assert error.reason == "invalid_json"
    assert (error.text, error.usage) == (NOT_JSON[name], USAGE)


VIOLATIONS = {
    "missing field": ('{"label": "a"}', "score: missing"),
    "wrong type": ('{"label": "a", "score": "many"}', "score: int_parsing"),
    "constraint": ('{"label": "a", "score": 11}', "score: less_than_equal"),
    "double-encoded": ('"{\\"label\\": \\"a\\", \\"score\\": 1}"', "(root): model_type"),
    "another kind of value": ("[]", "(root): model_type"),
    "null": ("null", "(root): model_type"),
    "400 digits": ('{"label": "a", "score": ' + "9" * 400 + "}", "score: less_than_equal"),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_json_of_another_shape_is_a_schema_violation(name):
    text, expected = VIOLATIONS[name]
    error = failure(text, Label)
    assert error.reason == "schema_violation"
    assert str(error) == f"the answer violates Label: {expected}"


def test_a_long_list_of_violations_is_cut():
    error = failure(json.dumps([{"label": 1, "score": 1}] * 5), Labels)
    assert str(error) == (
        "the answer violates Labels: 0.label: string_type; 1.label: string_type; 2.label: string_type; and 2 more"
    )


@pytest.mark.parametrize("text", [None, "", " \n\t"])
def test_no_text_is_a_reason_of_its_own(text):
    error = failure(text, Label, finish_reason="tool_calls")
    assert (error.reason, error.finish_reason) == ("no_text", "tool_calls")


@pytest.mark.parametrize("text", ['{"label": "a", "sco', "", '{"label": "a"}'])
def test_an_answer_cut_at_the_token_limit_is_truncated(text):
    error = failure(text, Label, finish_reason="length")
    assert error.reason == "truncated"
    assert "max_tokens" in str(error)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (None, {"refusal": "I cannot help with that."}),
        ("", {"refusal": ""}),
        ('{"label": "a", "score": 1}', {"refusal": "no"}),
        ("I cannot", {"finish_reason": "refusal"}),
        (None, {"finish_reason": "content_filter"}),
    ],
)
def test_a_refusal_is_a_reason_of_its_own(text, more):
    error = failure(text, Label, **more)
    assert (error.reason, str(error)) == ("refused", "the model refused to answer")


# What a message may show

SECRET = "sk-proj-0123456789"


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    counts: dict[str, int] = {}

    @field_validator("counts")
    @classmethod
    def few(cls, counts):
        if len(counts) > 2:
            raise ValueError(f"too many of {counts}")
        return counts


@pytest.mark.parametrize(
    "text",
    [
        f"{SECRET} is the key",
        f'{{"{SECRET}": 1, "{SECRET}": 2}}',
        f'{{"x\\"{SECRET}\\"y": 1, "x\\"{SECRET}\\"y": 2}}',
        f'{{"\\n{SECRET}": 1, "\\n{SECRET}": 2}}',
        f'{{"counts": "{SECRET}"}}',
        f'{{"counts": {{"{SECRET}": "x"}}}}',
        f'{{"{SECRET}": 1}}',
        f'{{"counts": {{"a": 1, "b": 2, "{SECRET}": 3}}}}',
        f'{{"counts": {{"{SECRET}\ud83d": 1}}}}',
    ],
)
def test_no_message_shows_the_answer(text):
    error = failure(text, Closed)
    assert error.text == text
    assert SECRET not in str(error)
    assert SECRET not in repr(error)
    assert error.__suppress_context__


def test_a_path_keeps_the_names_that_the_schema_holds():
    error = failure('{"counts": {"private": "x"}}', Closed)
    assert str(error) == "the answer violates Closed: counts.…: int_parsing"
    nested = failure('{"billing": {"city": 5}, "shipping": {"city": "B"}}', Order)
    assert str(nested) == "the answer violates Order: billing.city: string_type"
    aliased = failure('{"displayName": "too long a name"}', Many)
    assert str(aliased) == "the answer violates Many: displayName: string_too_long"


def test_an_odd_extra_in_the_json_schema_does_not_disturb_the_message():
    odd = create_model("Odd", a=(int, Field(json_schema_extra={"properties": 5, "examples": [[1]]})))
    assert str(failure('{"a": "x"}', odd)) == "the answer violates Odd: a: int_parsing"


# What is sent


def test_the_schema_is_folded_into_the_request_beside_the_parameters():
    request = LlmRequest("m", [{"role": "user", "content": "hi"}], None, {"temperature": 0})
    sent = fold(request, Label)
    assert sent.sampling_params == {
        "temperature": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "Label", "schema": Label.model_json_schema(), "strict": True},
        },
    }
    assert request.sampling_params == {"temperature": 0}
    assert (sent.model_id, sent.messages) == (request.model_id, request.messages)


def test_without_a_schema_the_request_is_sent_as_it_is():
    request = LlmRequest("m", [])
    assert fold(request, None) is request


def test_a_response_format_of_one_s_own_contradicts_an_output_schema():
    request = LlmRequest("m", [], None, {"response_format": {"type": "json_object"}})
    assert fold(request, None) is request
    with pytest.raises(ValueError, match="give one of them"):
        fold(request, Label)


def test_defaults_that_json_cannot_hold_stay_out_of_the_request():
    class Measured(BaseModel):
        value: float = float("nan")
        bounds: list[float] = [0.0]

    wanted: Any = response_format(Measured)["json_schema"]
    assert "default" not in wanted["schema"]["properties"]["value"]
    assert wanted["schema"]["properties"]["bounds"]["default"] == [0.0]
    parsed = parse_output(said("{}"), Measured)
    assert parsed.value != parsed.value


def test_the_schema_of_a_class_is_computed_once():
    computed = []

    class Counted(BaseModel):
        a: int

        @classmethod
        def model_json_schema(cls, **options):
            computed.append(cls)
            return super().model_json_schema(**options)

    first = response_format(Counted)
    for _ in range(5):
        assert response_format(Counted) is first
        failure('{"a": "x"}', Counted)
    assert computed == [Counted]


def test_classes_of_one_name_are_told_apart():
    one = create_model("Same", a=(int, ...))
    two = create_model("Same", b=(int, ...))
    assert response_format(one) != response_format(two)


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (Box[int], "Box_int_"),
        (create_model("Größe", a=(int, 0)), "Gr__e"),
        (create_model("X" * 200, a=(int, 0)), "X" * 64),
    ],
)
def test_the_name_is_one_that_vendors_accept(schema, name):
    assert response_format(schema)["json_schema"]["name"] == name


class Lost(BaseModel):
    later: Nowhere  # noqa: F821 - a forward reference that nothing resolves


class WithCallable(BaseModel):
    call: Callable[[], None]


@pytest.mark.parametrize("schema", [dict, int, "Label", Label(label="a", score=1), list[Label], BaseModel, None, {}])
def test_what_is_no_model_class_is_a_type_error(schema):
    with pytest.raises(TypeError, match="must be a Pydantic model class"):
        response_format(schema)


@pytest.mark.parametrize("schema", [WithCallable, Lost])
def test_a_class_without_a_json_schema_is_a_type_error_before_any_call(schema):
    with pytest.raises(TypeError, match=rf"output_schema {schema.__name__} has no JSON schema"):
        response_format(schema)


# The verdict


def test_an_answer_is_judged_once():
    judged = []

    class Judged(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def count(cls, value):
            judged.append(value)
            return value

    verdict = Verdict(Judged)
    assert verdict.satisfied_by(said('{"a": 1}'))
    assert verdict.parsed(said('{"a": 1}')) is verdict.parsed(said('{"a": 1}'))
    assert judged == [1]


def test_a_bad_answer_raises_the_same_error_each_time_it_is_asked_for():
    verdict = Verdict(Label)
    assert not verdict.satisfied_by(said("no"))
    raised = []
    for _ in range(2):
        with pytest.raises(OutputSchemaError) as caught:
            verdict.parsed(said("no"))
        raised.append(caught.value)
    assert raised[0] is raised[1]


def test_without_a_schema_every_answer_satisfies_and_none_is_parsed():
    verdict = Verdict(None)
    assert verdict.satisfied_by(said(None))
    assert verdict.parsed(said("no json")) is None


def test_an_error_of_the_model_s_own_validator_comes_through():
    class Broken(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def fail(cls, value):
            raise KeyError("a bug of the user's")

    verdict = Verdict(Broken)
    assert not verdict.satisfied_by(said('{"a": 1}'))
    with pytest.raises(KeyError):
        verdict.parsed(said('{"a": 1}'))
