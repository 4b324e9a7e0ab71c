"""The options of `beam-agents demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_agents.cli.ending import exit_with

__all__ = ["EXAMPLE", "demo"]

EXAMPLE = "beam-agents demo --price-in 3 --price-out 15"


def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where everything is kept.")] = Path(".demo"),
    price_in: Annotated[float | None, typer.Option(help="Price of a million input tokens, in USD.")] = None,
    price_out: Annotated[float | None, typer.Option(help="Price of a million output tokens, in USD.")] = None,
    scripted: Annotated[
        bool, typer.Option("--scripted", help="Use the scripted stand-in instead of the model.")
    ] = False,
) -> None:
    """Watch real events go through a real model on this machine: calm, with faults, killed and resumed."""

    def work() -> int:
        from rich.console import Console

        from beam_agents.cli.demo.bill import Prices
        from beam_agents.cli.demo.story import tell

        return tell(Console(), folder, Prices.given(price_in, price_out), scripted=scripted)

    exit_with(work)
