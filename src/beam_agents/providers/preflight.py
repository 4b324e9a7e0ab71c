"""What a vendor is asked for a Pydantic model, and where that differs; for preflight and the command line."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from beam_agents.providers.schema_rules import ANTHROPIC, GEMINI, OPENAI, SchemaRules
from beam_agents.providers.structured_output import vendor_schema
from beam_agents.providers.wire_schema import WireSchema

__all__ = ["RULES", "schema_report"]

RULES: Final[dict[str, SchemaRules]] = {"anthropic": ANTHROPIC, "gemini": GEMINI, "openai": OPENAI}
"""The rules of each vendor in the provider table."""


def schema_report(output_schema: type[BaseModel], model: str) -> WireSchema:
    """The wire schema that `model`, such as `anthropic:NAME`, is asked for, and every difference. Sends nothing.

    Raises:
        SchemaNotExpressibleError: when it cannot be asked for; names field and reason.
        ValueError: for a vendor without structured output in the table.
    """
    vendor = model.partition(":")[0]
    if vendor not in RULES:
        raise ValueError(
            f"model {model!r} names no vendor with structured output; known are {', '.join(sorted(RULES))}"
        )
    return vendor_schema(output_schema.model_json_schema(), RULES[vendor])
