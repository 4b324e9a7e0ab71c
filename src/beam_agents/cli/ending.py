"""How a command ends: with an exit code, and for what the user can mend with one sentence and no traceback."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import NoReturn

import typer

from beam_agents.cli.complaint import Complaint

__all__ = ["BAD_INPUT", "DEBUG", "STOPPED", "exit_with", "leave"]

BAD_INPUT = 2
STOPPED = 130
DEBUG = "BEAM_AGENTS_DEBUG"
"""Environment variable that `--debug` sets: show tracebacks."""


def exit_with(work: Callable[[], int]) -> None:
    """Do `work` and end the command with the exit code that it returns."""
    raise typer.Exit(_code_of(work))


def leave(code: int) -> NoReturn:
    """End the process, at once where threads of Beam's workers would hold it."""
    sys.stdout.flush()
    sys.stderr.flush()
    if any(not one.daemon and one is not threading.main_thread() for one in threading.enumerate()):
        os._exit(code)
    raise SystemExit(code)


def _code_of(work: Callable[[], int]) -> int:
    try:
        return work()
    except Complaint as complaint:
        _say(str(complaint), complaint.__cause__)
        return BAD_INPUT
    except KeyboardInterrupt:
        typer.echo("Stopped.", err=True)
        return STOPPED
    except BrokenPipeError:  # the reader of standard output, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        said = (str(error).strip().splitlines() or ["no message"])[0]
        _say(
            f"{type(error).__name__}: {said} (this was not expected; `beam-agents --debug …` shows the traceback)",
            error,
        )
        return BAD_INPUT


def _say(message: str, cause: BaseException | None) -> None:
    if os.environ.get(DEBUG) and cause is not None:
        traceback.print_exception(cause)
    typer.secho(f"Error: {message}", fg="red", err=True)
