"""What a vendor cannot be asked for, told while a pipeline is built instead of by its first call."""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from beam_agents.errors import SchemaNotExpressibleError
from beam_agents.model.schema import response_format
from beam_agents.providers.json_body import dump_text
from beam_agents.providers.preflight import RULES, schema_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_agents.activation.config import AgentConfig

__all__ = ["asked_schemas", "require_expressible", "schema_warnings", "warn_of_schemas"]

_log = logging.getLogger(__name__)


def require_expressible(output_schema: type[BaseModel] | None, config: AgentConfig) -> None:
    """Look at what the configured vendor would be asked for; log once how that differs from the model.

    Looks at `config.model`, and at a `provider` that is one of our clients or a partial of one.

    Raises:
        SchemaNotExpressibleError: when it cannot be asked for; names field and reason.
        TypeError: when `output_schema` is no Pydantic model class, or has no JSON schema.
    """
    if output_schema is not None:
        response_format(output_schema)
        for told in _differences(output_schema, _asked_vendor(config)):
            _log_once(told)


def warn_of_schemas(agent: object, config: AgentConfig) -> None:
    """Log `schema_warnings`, each once in a process."""
    for told in schema_warnings(agent, config):
        _log_once(told)


def schema_warnings(agent: object, config: AgentConfig) -> list[str]:
    """How what the configured vendor would be asked for by an agent differs from its models, or why it cannot be asked.

    Only warnings, because an agent may ask another model. Those in `config.output_schemas` are certain.
    """
    vendor, told = _asked_vendor(config), []
    for schema in asked_schemas(agent):
        try:
            told += _differences(schema, vendor)
        except SchemaNotExpressibleError as error:
            told.append(f"asking for {schema.__name__} will fail before anything is sent: {error}")
        except Exception as error:  # a warning fails no pipeline
            told.append(f"asking for {schema.__name__} will fail, it has no JSON schema ({type(error).__name__})")
    return told


def asked_schemas(agent: object) -> list[type[BaseModel]]:
    """The models that an agent's code, or that of a function of its module that it uses, names beside `output_schema=`.

    Those that it comes to in another way are not found.
    """
    found: dict[type[BaseModel], None] = {}
    waiting, seen = [_function_of(agent)], set()
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.add(function)
        for code, value in _named(function):
            if isinstance(value, FunctionType) and value.__module__ == function.__module__:
                waiting.append(value)
            elif isinstance(value, type) and issubclass(value, BaseModel) and _passes_output_schema(code):
                found[value] = None
    return [one for one in found if one is not BaseModel]


def _asked_vendor(config: AgentConfig) -> str | None:
    """The vendor whose rules an output schema must satisfy; `None` when they are unknown or do not matter."""
    if config.model is not None:
        vendor, mode = config.model.partition(":")[0], config.structured_output
    else:
        factory: Any = config.provider
        options = factory.keywords if isinstance(factory, partial) else {}
        made = factory.func if isinstance(factory, partial) else factory
        vendor, mode = getattr(made, "provider_name", ""), options.get("structured_output", "native")
    return vendor if mode == "native" and vendor in RULES else None


def _differences(output_schema: type[BaseModel], vendor: str | None) -> list[str]:
    if vendor is None:
        return []
    wire = schema_report(output_schema, vendor)
    if not wire.differences:
        return []
    lines = [f"{one.field}: {one.keyword}: {one.change}" for one in wire.differences]
    head = f"{vendor} is not asked for all of {output_schema.__name__}; the answers are validated with all of it"
    return ["\n  ".join([f"{head}. Differences:", *lines, f"It is asked for {dump_text(wire.schema)}"])]


@lru_cache(maxsize=256)
def _log_once(told: str) -> None:
    _log.warning("%s", told)


def _function_of(agent: Any) -> object:
    while isinstance(agent, (partial, MethodType)):
        agent = agent.func if isinstance(agent, partial) else agent.__func__
    return agent if isinstance(agent, FunctionType) else getattr(type(agent), "__call__", None)  # noqa: B004


def _named(function: FunctionType) -> Iterator[tuple[CodeType, object]]:
    """Every object that a function's code names and that exists already, with the code that does."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for code in _codes(function.__code__):
        for name in (*code.co_names, *code.co_freevars):
            value = function.__globals__.get(name)
            if name in cells:
                value = next(iter(_content(cells[name])), None)
            yield code, value
            if isinstance(value, ModuleType):
                yield from ((code, vars(value).get(attribute)) for attribute in code.co_names)


def _content(cell: Any) -> list[object]:
    try:
        return [cell.cell_contents]
    except ValueError:  # it is still empty
        return []


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _passes_output_schema(code: CodeType) -> bool:
    """Keyword names of calls are among a code's constants, alone or as tuples."""
    return any(
        constant == "output_schema" or (isinstance(constant, tuple) and "output_schema" in constant)
        for constant in code.co_consts
    )
