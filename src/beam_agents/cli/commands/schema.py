"""The options of `beam-agents schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from beam_agents.cli.ending import exit_with

__all__ = ["EXAMPLE", "schema"]

EXAMPLE = "beam-agents schema examples/triage.py:Triage --model anthropic:claude-sonnet-4-5"


def schema(
    schema: Annotated[str, typer.Argument(help="The Pydantic model: module:Class or file.py:Class.", metavar="SCHEMA")],
    model: Annotated[str, typer.Option("--model", "-m", help="vendor:model, such as openai:gpt-4o-mini.")],
    as_json: Annotated[bool, typer.Option("--json", help="Schema and differences as one object of JSON.")] = False,
) -> None:
    """Show what a vendor is asked for an output schema, and every difference. Asks no model anything.

    Exit code 1 when the vendor cannot be asked for it.
    """

    def work() -> int:
        from beam_agents.cli.schema import say_schema, what_is_asked

        return say_schema(what_is_asked(schema, model), as_json=as_json)

    exit_with(work)
