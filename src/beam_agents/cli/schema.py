"""`beam-agents schema`: what a vendor would be asked for a Pydantic model, before anything is asked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from beam_agents.cli.agent_ref import load_object
from beam_agents.cli.complaint import Complaint
from beam_agents.errors import SchemaNotExpressibleError
from beam_agents.providers import schema_report
from beam_agents.providers.wire_schema import WireSchema

__all__ = ["NOT_EXPRESSIBLE", "Asked", "say_schema", "what_is_asked"]

NOT_EXPRESSIBLE = 1
"""Exit code for a model that the vendor cannot be asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a vendor is asked for, or why it cannot be."""

    model: str
    wire: WireSchema | None = None
    refusal: SchemaNotExpressibleError | None = None


def what_is_asked(ref: str, model: str) -> Asked:
    """The wire schema of the Pydantic model that `ref` names, at `model`. Sends nothing.

    Raises:
        Complaint: when there is no such model, or no such vendor.
    """
    found = load_object(ref, "a Pydantic model")
    if not isinstance(found, type) or not issubclass(found, BaseModel):
        raise Complaint(f"{ref} is no Pydantic model, but {found!r:.80}; name a class that derives from BaseModel")
    try:
        return Asked(model, wire=schema_report(found, model))
    except SchemaNotExpressibleError as error:
        return Asked(model, refusal=error)
    except PydanticUserError as error:
        raise Complaint(f"{ref} has no JSON schema: {str(error).splitlines()[0]}") from error
    except ValueError as error:
        raise Complaint(str(error)) from error


def say_schema(asked: Asked, *, as_json: bool) -> int:
    """Print it; returns the exit code."""
    if as_json:
        print(json.dumps(_told(asked), ensure_ascii=False))
    elif asked.wire is not None:
        _show(asked.wire, asked.model)
    if asked.refusal is not None:
        Console(stderr=True, soft_wrap=True).print(Text(f"Error: {asked.refusal}", style="red"))
        return NOT_EXPRESSIBLE
    return 0


def _told(asked: Asked) -> dict[str, Any]:
    refusal, wire = asked.refusal, asked.wire
    if refusal is not None:
        return {"model": asked.model, "expressible": False, "field": refusal.field, "reason": refusal.reason}
    if wire is None:
        return {"model": asked.model}
    differences = [{"field": one.field, "keyword": one.keyword, "change": one.change} for one in wire.differences]
    return {"model": asked.model, "expressible": True, "schema": wire.schema, "differences": differences}


def _show(wire: WireSchema, model: str) -> None:
    console = Console()
    text = json.dumps(wire.schema, ensure_ascii=False, indent=2)
    console.print(
        Syntax(text, "json", background_color="default", word_wrap=True) if console.is_terminal else Text(text)
    )
    if not wire.differences:
        console.print("\nNothing is dropped or changed.")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("field", "keyword", f"what {model} is asked instead"):
        table.add_column(name, overflow="fold")
    for one in wire.differences:
        table.add_row(Text(one.field), Text(one.keyword), Text(one.change))
    console.print(
        "\nThe answer is validated with the whole model, whatever is asked for. Differences:\n", soft_wrap=True
    )
    console.print(table)
