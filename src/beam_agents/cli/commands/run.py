"""The options of `beam-agents run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_agents.cli.ending import exit_with

__all__ = ["EXAMPLE", "run"]

EXAMPLE = (
    "beam-agents run examples/triage.py:triage --input examples/tickets.jsonl --key customer --output out.jsonl "
    "--model openai:gpt-4o-mini"
)


def run(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(help="The agent: module:function or file.py:function.", metavar="AGENT")],
    model: Annotated[str, typer.Option("--model", "-m", help="vendor:model, such as openai:gpt-4o-mini.")],
    input: Annotated[
        str | None,
        typer.Option("--input", "-i", help="Events: .jsonl, .csv, .txt, also gzipped; - is standard input."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", "-k", help="Field that holds the key. Without it every event is a key of its own."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="What the agent emits, as JSON lines.")] = Path(
        "out.jsonl"
    ),
    traces: Annotated[
        Path | None,
        typer.Option(help="Trace events, as JSON lines. Default: traces.jsonl beside the output.", show_default=False),
    ] = None,
    errors: Annotated[
        Path | None, typer.Option(help="Dead letters. Default: errors.jsonl beside the output.", show_default=False)
    ] = None,
    format: Annotated[str | None, typer.Option(help="jsonl, csv or text, when the file's name does not tell.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Endpoint, when it is not the vendor's own.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key, when it is not the vendor's usual one.")
    ] = None,
    structured_output: Annotated[
        str,
        typer.Option(help="native, or prompt for an endpoint without structured output: schemas go into the prompt."),
    ] = "native",
    journal: Annotated[
        str | None,
        typer.Option(
            help="sqlite:///…, redis://…, postgresql://… or none. Default: journal.db beside the output.",
            show_default=False,
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(help="What a run is resumed by. Default: agent, input's name and model.", show_default=False),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew: use no stored answer.")] = False,
    retry_errors: Annotated[
        str | None, typer.Option(help="Run the dead letters of this errors.jsonl again instead of an input.")
    ] = None,
    otlp: Annotated[str | None, typer.Option(help="Also send trace events to this OTLP/HTTP endpoint.")] = None,
    record_content: Annotated[
        bool, typer.Option("--record-content", help="Put prompts and answers into the trace events.")
    ] = False,
    redact: Annotated[
        str | None,
        typer.Option(help="With --record-content: module:function that each of their texts goes through first."),
    ] = None,
    max_in_flight: Annotated[int, typer.Option(help="Activations at work at once.")] = 64,
    timeout: Annotated[float, typer.Option(help="Deadline of one activation, in seconds.")] = 300.0,
    max_attempts: Annotated[int, typer.Option(help="Requests for one call before giving up.")] = 6,
    on_in_doubt: Annotated[
        str,
        typer.Option(
            help="What to do when an earlier run died with this very request in flight: repay, fail or defer."
        ),
    ] = "repay",
    on_divergence: Annotated[
        str,
        typer.Option(
            help="What to do when an event asks something else than an earlier run: warn (pay for it), strict (make a "
            "dead letter) or rerun (start it again, paying from there on)."
        ),
    ] = "warn",
    max_errors: Annotated[int, typer.Option(help="Dead letters that still count as success.")] = 0,
    prices: Annotated[str | None, typer.Option(help="JSON file with prices of your own.")] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress; no table unless something failed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The closing numbers as JSON.")] = False,
) -> None:
    """Run an agent over a file of events. Running the same command again resumes: it pays only for the rest.

    Everything after `--` goes to Beam as pipeline options.
    """
    from beam_agents.cli.choices import one_of
    from beam_agents.cli.events import FORMATS
    from beam_agents.cli.run_options import RunOptions

    def work() -> int:
        from beam_agents.cli.run import run as run_agent

        return run_agent(
            RunOptions(
                agent=agent,
                model=model,
                input=input,
                retry_errors=retry_errors,
                key=key,
                format=one_of("--format", format, FORMATS),
                output=output,
                traces=traces,
                errors=errors,
                base_url=base_url,
                api_key_env=api_key_env,
                structured_output=one_of("--structured-output", structured_output, ("native", "prompt")) or "native",
                journal=journal,
                namespace=namespace,
                fresh=fresh,
                max_in_flight=max_in_flight,
                timeout_s=timeout,
                max_attempts=max_attempts,
                on_in_doubt=one_of("--on-in-doubt", on_in_doubt, ("repay", "fail", "defer")) or "repay",
                on_divergence=one_of("--on-divergence", on_divergence, ("warn", "strict", "rerun")) or "warn",
                max_errors=max_errors,
                prices=prices,
                otlp=otlp,
                record_content=record_content,
                redact=redact,
                quiet=quiet,
                as_json=as_json,
                beam_arguments=context.obj.beam_arguments if context.obj else (),
            )
        )

    exit_with(work)
