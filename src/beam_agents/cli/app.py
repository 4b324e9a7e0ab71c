"""The commands. What a command does is imported when it runs, so that `--help` is quick."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Annotated, NoReturn

import typer

from beam_agents.cli.commands import demo, doctor, journal, replay, report, run, schema
from beam_agents.cli.ending import DEBUG, leave
from beam_agents.cli.invocation import Invocation

__all__ = ["app", "run_app"]

app = typer.Typer(
    name="beam-agents",
    help="Calls of language models from inside Apache Beam pipelines: resilient, replayable, accounted for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # drawing help with rich takes twice as long as all the rest of it
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def run_app(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line. Everything after `--` goes to Beam. Bad input is one sentence and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    beam_arguments: tuple[str, ...] = ()
    if "run" in given and "--" in given:
        at = given.index("--")
        given, beam_arguments = given[:at], tuple(given[at + 1 :])
    try:
        app(args=given, prog_name="beam-agents", obj=Invocation(beam_arguments))
    except SystemExit as ended:
        leave(ended.code if isinstance(ended.code, int) else 0)
    leave(0)


@app.callback()
def _main(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and logs.")] = False) -> None:
    level = logging.INFO if debug else logging.CRITICAL
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
    if debug:
        os.environ[DEBUG] = "1"
    else:
        warnings.simplefilter("ignore")


for command, example in (
    (run.run, run.EXAMPLE),
    (demo.demo, demo.EXAMPLE),
    (report.report, report.EXAMPLE),
    (replay.replay, replay.EXAMPLE),
    (doctor.doctor, doctor.EXAMPLE),
    (schema.schema, schema.EXAMPLE),
):
    app.command(epilog=f"Example:  {example}")(command)
app.add_typer(journal.journal, name="journal", epilog=f"Example:  {journal.EXAMPLE}")
