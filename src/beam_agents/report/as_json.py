"""A report as JSON: money as decimal text, so that it stays exact."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

import orjson

from beam_agents.exporters.jsonl import entity_key_to_json
from beam_agents.report.contents import Report

__all__ = ["report_json"]


def report_json(report: Report) -> str:
    """The whole report as one JSON object, keys sorted, indented."""
    told = dataclasses.asdict(report)
    for activation in (*told["slowest"], *told["dearest"]):
        activation["trace_id"] = activation["trace_id"].hex()
        activation["entity_key"] = entity_key_to_json(activation["entity_key"])
    return orjson.dumps(told, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    raise TypeError(f"{type(value).__name__} is not JSON")
