"""The options of `beam-agents replay`."""

from __future__ import annotations

from typing import Annotated

import typer

from beam_agents.cli.ending import exit_with

__all__ = ["EXAMPLE", "replay"]

EXAMPLE = (
    "beam-agents replay examples/triage.py:triage --input examples/tickets.jsonl --key customer "
    "--journal sqlite:///journal.db --entity c7 --seq 2"
)


def replay(
    agent: Annotated[str, typer.Argument(help="The agent: module:function or file.py:function.", metavar="AGENT")],
    input: Annotated[str, typer.Option("--input", "-i", help="The events of the run that is looked at.")],
    entity: Annotated[str, typer.Option("--entity", "-e", help="Key of the activation.")],
    seq: Annotated[int, typer.Option("--seq", help="Which event of that key, from 0.")],
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="Field that holds the key, as it was given to run.")
    ] = None,
    journal: Annotated[str, typer.Option(help="Journal of the run.")] = "sqlite:///journal.db",
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace of the run. Default: the one that the journal knows.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="vendor:model of the run, when its namespace does not tell it."),
    ] = None,
    format: Annotated[str | None, typer.Option(help="jsonl, csv or text, when the file's name does not tell.")] = None,
    what_if: Annotated[
        str | None,
        typer.Option(help="model=vendor:model: which calls another model would have to be paid for, and the price."),
    ] = None,
    prices: Annotated[str | None, typer.Option(help="JSON file with prices of your own.")] = None,
    answers: Annotated[bool, typer.Option("--answers", help="Show the texts and outputs themselves.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Run one activation again from journal and event, offline: does it take the way that it took?

    No model is asked, no step is run, nothing is written; the agent's other code does run.

    Exit code 0: reproduced, or estimated. 1: diverged. 3: not in the journal.
    """
    from beam_agents.cli.choices import one_of
    from beam_agents.cli.events import FORMATS

    def work() -> int:
        from beam_agents.cli.replay.plan import ReplayOptions
        from beam_agents.cli.replay.work import replay as replay_activation

        return replay_activation(
            ReplayOptions(
                agent=agent,
                input=input,
                entity=entity,
                seq=seq,
                journal=journal,
                key=key,
                format=one_of("--format", format, FORMATS),
                namespace=namespace,
                model=model,
                what_if=what_if,
                prices=prices,
                answers=answers,
                as_json=as_json,
            )
        )

    exit_with(work)
