"""The options of `beam-agents doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from beam_agents.cli.ending import exit_with

__all__ = ["EXAMPLE", "doctor"]

EXAMPLE = "beam-agents doctor --model openai:gpt-4o-mini --journal sqlite:///journal.db"


def doctor(
    model: Annotated[str | None, typer.Option("--model", "-m", help="vendor:model to reach.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Endpoint, when it is not the vendor's own.")] = None,
    api_key_env: Annotated[str | None, typer.Option(help="Environment variable with the key.")] = None,
    journal: Annotated[
        str | None, typer.Option(help="Journal to try. Default: a file in the working folder.", show_default=False)
    ] = None,
) -> None:
    """Say what works on this machine, and what to do about the rest. Asks no model anything."""

    def work() -> int:
        from rich.console import Console

        from beam_agents.cli.doctor.examine import examine
        from beam_agents.cli.doctor.findings import Patient

        return examine(Console(), Patient(model, base_url, api_key_env, journal))

    exit_with(work)
