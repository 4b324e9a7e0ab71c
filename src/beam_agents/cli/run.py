"""`beam-agents run`: an agent over a file of events."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.activation.loop import close_activation_loop
from beam_agents.activation.resources import Resources, resources_for
from beam_agents.beam.batch import Receiver, ResultFiles, run_here, run_on_runner, runs_in_process, unknown_arguments
from beam_agents.cli.account import RunAccount
from beam_agents.cli.agent_ref import modules_from_files
from beam_agents.cli.closing import closing_json, closing_table
from beam_agents.cli.complaint import Complaint
from beam_agents.cli.live import display_for
from beam_agents.cli.panel import Vitals
from beam_agents.cli.result_lines import LineFile, json_line
from beam_agents.cli.retried import original_event
from beam_agents.cli.run_options import RunOptions
from beam_agents.cli.run_plan import RunPlan, make_plan
from beam_agents.cli.wording import counted
from beam_agents.exporters.jsonl import event_to_json
from beam_agents.proto import TraceEvent

__all__ = ["INTERRUPTED", "run"]

INTERRUPTED = 130
_TOO_MANY_DEAD_LETTERS = 1
_LOOK_S = 0.1
_DRAIN_S = 20.0


def run(options: RunOptions) -> int:
    """Run and report; returns the exit code.

    Raises:
        Complaint: when the arguments or the input will not do, before anything is asked of a model.
    """
    unknown = unknown_arguments(options.beam_arguments)
    if unknown:
        raise Complaint(f"Beam knows no option {' '.join(unknown)} (everything after -- goes to Beam)")
    plan = make_plan(options)
    if not options.quiet:
        for told in plan.warnings:
            Console(stderr=True, soft_wrap=True).print(Text(f"Warning: {told}", style="yellow"))
    account = RunAccount(len(plan.pairs), plan.prices)
    started = _now_ms()
    if runs_in_process(options.beam_arguments):
        _run_here(options, plan, account)
    else:
        _run_on_runner(options, plan, account)
    _say_closing(options, plan, account, _now_ms() - started)
    return _TOO_MANY_DEAD_LETTERS if account.dead.total() > options.max_errors else 0


def _run_here(options: RunOptions, plan: RunPlan, account: RunAccount) -> None:
    files = [LineFile(path) for path in plan.paths.all]
    work = _Work(
        lambda: run_here(plan.pairs, plan.agent, plan.config, _receiver(plan, account, *files), options.beam_arguments)
    )
    resources = resources_for(plan.config)
    display = display_for(Console(stderr=True), _title(options), quiet=options.quiet, now_ms=_now_ms)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with display:
            while not work.is_over(_LOOK_S):
                display.update(account, _vitals(resources))
    except KeyboardInterrupt:
        _stop(plan, account, files, work, resources)
    signal.signal(signal.SIGTERM, before)
    if work.error is not None:
        close_activation_loop()
        for file in files:
            file.abandon()
        raise Complaint(_failure(work.error, plan)) from work.error
    for file in files:
        file.finish()
    close_activation_loop()
    _close_exporter(plan)


def _close_exporter(plan: RunPlan) -> None:
    if plan.exporter is None:
        return
    plan.exporter.close()
    if plan.exporter.dropped:
        Console(stderr=True).print(
            f"{counted(plan.exporter.dropped, 'trace event')} could not be sent: {plan.exporter.last_error}"
        )


def _run_on_runner(options: RunOptions, plan: RunPlan, account: RunAccount) -> None:
    files = ResultFiles(*plan.paths.all, output_line=json_line, trace_line=_trace_line, error_line=_error_line)
    try:
        run_on_runner(plan.pairs, plan.agent, plan.config, files, options.beam_arguments, modules_from_files())
    except Exception as error:
        raise Complaint(_failure(error, plan)) from error
    _count_files(plan, account)


def _receiver(plan: RunPlan, account: RunAccount, outputs: LineFile, traces: LineFile, errors: LineFile) -> Receiver:
    def take_output(value: Any) -> None:
        outputs.write(json_line(value))
        account.add_output()

    def take_trace(event: TraceEvent) -> None:
        traces.write(_trace_line(event))
        account.add_event(event)
        if plan.exporter is not None:
            plan.exporter.export((event,))

    def take_error(letter: DeadLetter) -> None:
        errors.write(_error_line(letter))
        account.add_dead_letter(letter)
        if plan.exporter is not None:
            plan.exporter.export(letter.trace_events)

    return Receiver(take_output, take_trace, take_error)


def _stop(plan: RunPlan, account: RunAccount, files: list[LineFile], work: _Work, resources: Resources) -> NoReturn:
    """Begin nothing more, give the calls in flight a little time, close the journal, and leave."""
    console = Console(stderr=True)
    resources.slots.close()
    console.print(
        f"\nStopping: {counted(resources.slots.in_use, 'activation')} at work may finish (Ctrl-C again to leave now)."
    )
    deadline = _now_ms() + _DRAIN_S * 1000
    try:
        while resources.slots.in_use and _now_ms() < deadline and not work.is_over(_LOOK_S):
            pass
        work.is_over(_LOOK_S)  # lets what has just finished be committed
    except KeyboardInterrupt:
        pass
    close_activation_loop()
    for file in files:
        file.abandon()
    kept = f"Everything answered is in the journal ({_shown_journal(plan)}); " if plan.config.journal else ""
    again = (
        "run the same command again and pay only for the rest"
        if plan.config.journal
        else "there is no journal: a new run starts anew"
    )
    console.print(
        f"Stopped after {account.done:,} of {counted(account.events, 'event')}. {kept}{again}.\n"
        f"What was done so far: {', '.join(str(file.part) for file in files)}"
    )
    sys.stdout.flush()
    os._exit(INTERRUPTED)  # Beam's threads would hold the process


class _Work:
    """Runs `work` on a thread, so that the main thread can show progress and hear Ctrl-C."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._over = threading.Event()  # Thread.join takes a thread for dead when Ctrl-C interrupts it
        threading.Thread(target=self._run, name="pipeline", daemon=True).start()

    def is_over(self, wait_s: float) -> bool:
        """Whether it is done, after waiting a little."""
        return self._over.wait(wait_s)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error
        finally:
            self._over.set()


def _vitals(resources: Resources) -> Vitals:
    at_work = resources.slots.in_use
    return Vitals(
        at_work,
        max(0, resources.admission.events - at_work),
        resources.on_the_wire,
        tuple((endpoint.partition("#")[0], str(state.value)) for endpoint, state in resources.circuits.items()),
    )


def _say_closing(options: RunOptions, plan: RunPlan, account: RunAccount, took_ms: float) -> None:
    date = datetime.now(UTC).date().isoformat()
    if options.as_json:
        print(json_line(closing_json(account, took_ms=took_ms, date=date, namespace=plan.namespace)).decode(), end="")
        return
    if options.quiet and not account.dead:
        return
    shown = [_shown(path) for path in plan.paths.all] + ([_shown_journal(plan)] if plan.config.journal else [])
    Console().print(closing_table(account, title=_title(options), took_ms=took_ms, date=date, files=shown))


def _title(options: RunOptions) -> str:
    return f"{options.agent.rpartition(':')[2]} over {Path(options.input or options.retry_errors or '-').name}"


def _count_files(plan: RunPlan, account: RunAccount) -> None:
    from beam_agents.exporters.jsonl import JsonLines, read_events

    with plan.paths.output.open("rb") as stream:
        for _ in stream:
            account.add_output()
    with plan.paths.traces.open("rb") as stream:
        for event in read_events(stream):
            account.add_event(event)
    with plan.paths.errors.open("rb") as stream:
        for letter in JsonLines(stream, DeadLetter.from_json, name=str(plan.paths.errors)):
            account.add_dead_letter(letter)


def _trace_line(event: TraceEvent) -> bytes:
    return json_line(event_to_json(event))


def _error_line(letter: DeadLetter) -> bytes:
    return json_line(original_event(letter).to_json())


def _shown_journal(plan: RunPlan) -> str:
    uri = str(plan.config.journal)
    return _shown(Path(uri.removeprefix("sqlite:///"))) if uri.startswith("sqlite:") else uri.rpartition("@")[2]


def _shown(path: Path) -> str:
    """Short, where it lies below the working folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _failure(error: BaseException, plan: RunPlan) -> str:
    said = (str(error).strip().splitlines() or ["no message"])[0]
    kept = "; what was answered is in the journal, running again pays only for the rest" if plan.config.journal else ""
    return (
        f"the pipeline failed with {type(error).__name__}: {said}{kept} (`beam-agents --debug …` shows the traceback)"
    )


def _interrupt(signal_number: int, frame: object) -> None:  # noqa: ARG001 - the signature of a signal handler
    raise KeyboardInterrupt


def _now_ms() -> float:
    return time.monotonic() * 1000  # noqa: TID251 - a person waits
