"""`RunAgent` and `Complete` for Beam YAML: a provider of type `python` names the two functions below.

::

    providers:
      - type: python
        config: {}
        transforms:
          RunAgent: beam_agents.beam.yaml.run_agent
          Complete: beam_agents.beam.yaml.complete

Both take rows and have the outputs `output`, `errors` and `traces`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import apache_beam as beam
import orjson
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_fields_from_element_type
from pydantic import BaseModel, create_model

from beam_agents.activation.config import AgentConfig
from beam_agents.beam.complete import Complete
from beam_agents.beam.outputs import AgentOutputs
from beam_agents.beam.rows import DeadLetterRow, TraceRow, dead_letter_row, trace_row
from beam_agents.beam.transform import RunAgent
from beam_agents.model import FacadeResult

__all__ = ["complete", "run_agent"]

_TYPES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


def run_agent(
    agent: str, key: str, model: str, fields: Mapping[str, Any] | None = None, **config: Any
) -> beam.PTransform:
    """Runs an agent over rows; the agent gets each row as a dictionary.

    Args:
        agent: `module:function`.
        key: name of the field that holds the key.
        model: `vendor:model`.
        fields: fields of the output and their types (`string`, `integer`, `number`, `boolean`), for an agent
            that emits dictionaries with them. Without, the output has one field `output` that holds JSON.
        **config: further fields of `AgentConfig`.
    """
    module, _, name = agent.partition(":")
    if not module or not name:
        raise ValueError(f"agent must look like 'module:function', not {agent!r}")
    return _RunAgentOnRows(getattr(importlib.import_module(module), name), key, fields, AgentConfig(model, **config))


def complete(prompt: str, model: str, fields: Mapping[str, Any] | None = None, **config: Any) -> beam.PTransform:
    """Asks the model once for each row; the output has the row's fields and those of the answer.

    Args:
        prompt: what to ask, with fields of the row in braces: `Classify {text}`.
        model: `vendor:model`.
        fields: fields of the answer: a type, or a list of the texts that are allowed. Without, the answer's
            text is in the field `answer`.
        **config: further fields of `AgentConfig`.
    """
    return _CompleteOnRows(prompt, fields, AgentConfig(model, **config))


class _RunAgentOnRows(beam.PTransform):  # type: ignore[misc]
    def __init__(self, agent: Any, key: str, fields: Mapping[str, Any] | None, config: AgentConfig) -> None:
        super().__init__()
        self._agent, self._key, self._fields, self._config = agent, key, fields, config

    def expand(self, rows: beam.PCollection[Any]) -> dict[str, Any]:
        pairs = rows | "Key" >> beam.Map(partial(_keyed, key=self._key)).with_output_types(tuple[str, Any])
        results = pairs | "Agent" >> RunAgent(self._agent, self._config)
        if self._fields is None:
            output = results.main | "Output" >> beam.Map(_as_json).with_output_types(_row_type({"output": str}))
        else:
            columns = {name: _type_of(name, kind) for name, kind in self._fields.items()}
            output = results.main | "Output" >> beam.Map(partial(_chosen, names=tuple(columns))).with_output_types(
                _row_type(columns)
            )
        return _with_rest(results, output)


class _CompleteOnRows(beam.PTransform):  # type: ignore[misc]
    def __init__(self, prompt: str, fields: Mapping[str, Any] | None, config: AgentConfig) -> None:
        super().__init__()
        self._prompt, self._fields, self._config = prompt, fields, config

    def expand(self, rows: beam.PCollection[Any]) -> dict[str, Any]:
        columns = dict(named_fields_from_element_type(rows.element_type))
        fields = {name: _type_of(name, kind) for name, kind in (self._fields or {}).items()}
        schema = None if self._fields is None else _model(fields)
        added = {"answer": str} if self._fields is None else {n: str if _is_choice(t) else t for n, t in fields.items()}
        ask = Complete(partial(_prompted, prompt=self._prompt), self._config, output_schema=schema, to_output=_answered)
        dictionaries = rows | "Fields" >> beam.Map(_dictionary)
        results = dictionaries | "Ask" >> ask
        output = results.main | "Output" >> beam.Map(_row).with_output_types(_row_type(columns | added))
        return _with_rest(results, output)


def _with_rest(results: AgentOutputs, output: Any) -> dict[str, Any]:
    return {
        "output": output,
        "errors": results.errors | "Errors" >> beam.Map(dead_letter_row).with_output_types(DeadLetterRow),
        "traces": results.traces | "Traces" >> beam.Map(trace_row).with_output_types(TraceRow),
    }


def _model(fields: Mapping[str, Any]) -> type[BaseModel]:
    columns: dict[str, Any] = {name: (kind, ...) for name, kind in fields.items()}
    return create_model("Answer", **columns)


def _type_of(name: str, kind: Any) -> Any:
    if isinstance(kind, (list, tuple)) and kind:
        return Literal[tuple(map(str, kind))]
    if kind not in _TYPES:
        raise ValueError(f"field {name!r} must be one of {', '.join(_TYPES)} or a list of texts, not {kind!r}")
    return _TYPES[kind]


def _is_choice(kind: Any) -> bool:
    return not isinstance(kind, type)


def _row_type(columns: Mapping[str, Any]) -> Any:
    return RowTypeConstraint.from_fields(list(columns.items()))


def _dictionary(row: Any) -> dict[str, Any]:
    return dict(row._asdict())


def _keyed(row: Any, key: str) -> tuple[str, dict[str, Any]]:
    return str(getattr(row, key)), _dictionary(row)


def _as_json(value: Any) -> beam.Row:
    return beam.Row(output=orjson.dumps(value).decode())


def _chosen(value: Mapping[str, Any], names: tuple[str, ...]) -> beam.Row:
    return beam.Row(**{name: value[name] for name in names})


def _row(columns: Mapping[str, Any]) -> beam.Row:
    return beam.Row(**columns)


def _prompted(row: Mapping[str, Any], prompt: str) -> str:
    return prompt.format(**row)


def _answered(row: Mapping[str, Any], result: FacadeResult) -> dict[str, Any]:
    return {**row, **({"answer": result.text or ""} if result.parsed is None else result.parsed.model_dump())}
