"""Output schemas that a vendor cannot be asked for are found while a pipeline is built."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, Field

from beam_agents.activation import AgentConfig
from beam_agents.activation.preflight import asked_schemas, schema_warnings, warn_of_schemas
from beam_agents.errors import SchemaNotExpressibleError
from beam_agents.providers import PROVIDERS, GeminiClient, OpenAIClient
from tests.activation import schemas

OPENAI = AgentConfig("openai:m")


class Plain(BaseModel):
    text: str


class Short(BaseModel):
    text: str = Field(max_length=5)


class Tags(BaseModel):
    tags: dict[str, int]


class Odd(BaseModel):
    value: Callable[[], int]


def test_a_declared_schema_that_cannot_be_asked_for_fails_with_field_and_reason():
    with pytest.raises(SchemaNotExpressibleError, match="free keys") as caught:
        AgentConfig("openai:m", output_schemas=(Plain, Tags))
    assert (caught.value.vendor, caught.value.field) == ("openai", "tags")


@pytest.mark.parametrize(
    "make",
    [
        lambda: AgentConfig("gemini:m", output_schemas=(Tags,)),
        lambda: AgentConfig("openai:m", output_schemas=(Tags,), structured_output="prompt"),
        lambda: AgentConfig(provider=lambda: None, decode=OpenAIClient.decode, output_schemas=(Tags,)),
        lambda: AgentConfig(
            provider=partial(OpenAIClient, structured_output="prompt"),
            decode=OpenAIClient.decode,
            output_schemas=(Tags,),
        ),
        lambda: AgentConfig(provider=GeminiClient, decode=GeminiClient.decode, output_schemas=(Tags,)),
    ],
)
def test_what_can_be_asked_for_or_is_not_known_passes(make: Any):
    assert make().output_schemas == (Tags,)


def test_a_vendor_without_known_rules_passes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PROVIDERS, "another", "another:Client")
    assert AgentConfig("another:m", output_schemas=(Tags,)).output_schemas == (Tags,)


def test_a_client_of_ours_as_provider_is_looked_at():
    with pytest.raises(SchemaNotExpressibleError, match="tags"):
        AgentConfig(provider=partial(OpenAIClient, api_key_env="K"), decode=OpenAIClient.decode, output_schemas=(Tags,))


@pytest.mark.parametrize(("given", "said"), [((int,), "Pydantic model"), ((Odd,), "no JSON schema")])
def test_what_is_no_output_schema_is_refused(given: Any, said: str):
    with pytest.raises(TypeError, match=said):
        AgentConfig("openai:m", output_schemas=given)


def test_a_config_pickles_with_its_schemas():
    config = AgentConfig("openai:m", output_schemas=(Plain,), structured_output="prompt")
    assert pickle.loads(pickle.dumps(config)) == config


# What an agent's code names


async def direct(ctx: Any, event: Any) -> Any:
    Tags.model_validate(event)
    return await ctx.complete("x", output_schema=Short if event else Plain)


async def by_another_function(ctx: Any, event: Any) -> Any:
    return [await direct(ctx, one) for one in event]


async def in_an_inner_function(ctx: Any, event: Any) -> Any:
    async def inner() -> Any:
        return await ctx.complete("x", output_schema=schemas.Elsewhere, reask=1)

    return await inner()


async def only_reads(ctx: Any, event: Any) -> Any:
    return await ctx.complete(Tags.model_validate(event).tags)


def closed_over(schema: type[BaseModel]) -> Any:
    async def agent(ctx: Any, event: Any) -> Any:
        return await ctx.complete("x", output_schema=schema)

    return agent


class Called:
    async def __call__(self, ctx: Any, event: Any) -> Any:
        return await self.ask(ctx)

    async def ask(self, ctx: Any, event: Any = None) -> Any:
        return await ctx.complete("x", output_schema=Plain)


async def with_options(options: Any, ctx: Any, event: Any) -> Any:
    return await ctx.complete("x", output_schema=Short, **options)


@pytest.mark.parametrize(
    ("agent", "found"),
    [
        (direct, [Tags, Short, Plain]),
        (by_another_function, [Tags, Short, Plain]),
        (in_an_inner_function, [schemas.Elsewhere]),
        (only_reads, []),
        (closed_over(Tags), [Tags]),
        (Called().ask, [Plain]),
        (partial(with_options, {}), [Short]),
        (lambda ctx, event: ctx.complete("x", output_schema=Plain), [Plain]),
        (print, []),
    ],
)
def test_the_schemas_that_an_agent_names_beside_output_schema_are_found(agent: Any, found: list[Any]):
    assert asked_schemas(agent) == found


def test_each_difference_and_what_is_asked_for_instead_is_told():
    (told,) = schema_warnings(partial(with_options, {}), OPENAI)
    assert "openai is not asked for all of Short" in told
    assert "text: maxLength: 5 is not sent; the answer is still checked" in told
    assert '"properties":{"text":' in told
    assert schema_warnings(partial(with_options, {}), AgentConfig("openai:m", structured_output="prompt")) == []


def test_what_will_fail_is_logged_once_and_only_warned_of(caplog: pytest.LogCaptureFixture):
    class Loose(BaseModel):
        loose: dict[str, int]

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            warn_of_schemas(closed_over(Loose), OPENAI)
    (record,) = caplog.records
    assert "asking for Loose will fail before anything is sent" in record.getMessage()
    assert "field 'loose'" in record.getMessage()


def test_a_model_without_a_json_schema_is_told():
    (told,) = schema_warnings(closed_over(Odd), OPENAI)
    assert "asking for Odd will fail, it has no JSON schema" in told
