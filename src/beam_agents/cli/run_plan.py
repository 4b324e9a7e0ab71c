"""Everything that a run needs, checked before anything is asked of a model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beam_agents.activation.agent import Agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.preflight import schema_warnings
from beam_agents.cli.agent_ref import load_agent, load_object
from beam_agents.cli.complaint import Complaint
from beam_agents.cli.events import read_events
from beam_agents.cli.json_agent import JsonAgent
from beam_agents.cli.result_lines import ResultPaths
from beam_agents.cli.retried import AtPosition, position_of, read_dead_letters
from beam_agents.cli.run_options import RunOptions
from beam_agents.errors import JournalError
from beam_agents.exporters.port import Exporter
from beam_agents.exporters.table import open_exporter
from beam_agents.journals import open_journal
from beam_agents.model import RetryPolicy
from beam_agents.providers import load_provider
from beam_agents.report.money import PriceBook

__all__ = ["RunPlan", "make_plan", "price_book"]

_KEPT_OPEN = 4
"""Failed requests of this many calls in a row open a circuit."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What to run, over what, how, and where the results go."""

    pairs: list[tuple[Any, Any]]
    agent: Agent
    config: AgentConfig
    paths: ResultPaths
    prices: PriceBook
    namespace: str
    exporter: Exporter | None = None
    warnings: tuple[str, ...] = ()


def make_plan(options: RunOptions) -> RunPlan:
    """Check every argument and read the input.

    Raises:
        Complaint: for the first that will not do.
    """
    if options.max_errors < 0:
        raise Complaint(f"--max-errors must be at least 0, not {options.max_errors}")
    named = load_agent(options.agent)
    agent: Agent = JsonAgent(named)
    letters_of = None
    sequence = None
    if options.retry_errors is not None:
        pairs: list[tuple[Any, Any]]
        retried, letters_of = read_dead_letters(options.retry_errors)
        pairs, agent, sequence = list(retried), AtPosition(agent), position_of
    elif options.input is not None:
        pairs = list(read_events(options.input, key=options.key, format=options.format))
    else:
        raise Complaint("there is nothing to run over: name a file with --input, or with --retry-errors")
    paths = ResultPaths.beside(options.output, options.traces, options.errors)
    if options.retry_errors is not None:
        paths.spare(Path(options.retry_errors))
    namespace = options.namespace_at(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), letters_of)
    config = _config(options, namespace, sequence)
    _check_provider(config)
    _check_journal(config)
    return RunPlan(
        pairs,
        agent,
        config,
        paths,
        price_book(options.prices),
        namespace,
        _exporter(options.otlp),
        tuple(schema_warnings(named, config)),
    )


def price_book(path: str | None) -> PriceBook:
    """The prices of a file, before those of the bundled table; only the latter when `path` is `None`.

    Raises:
        Complaint: when the file cannot be read.
    """
    if path is None:
        return PriceBook()
    try:
        return PriceBook.from_file(path)
    except OSError as error:
        raise Complaint(f"the prices in {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Complaint(str(error)) from error


def _config(options: RunOptions, namespace: str, sequence: Any) -> AgentConfig:
    try:
        with warnings.catch_warnings(action="ignore"):
            return AgentConfig(
                options.model,
                base_url=options.base_url,
                api_key_env=options.api_key_env,
                structured_output=options.structured_output,
                retry_policy=RetryPolicy(max_attempts=options.max_attempts, base_ms=500, max_ms=30_000),
                breaker_threshold=max(10, options.max_attempts * _KEPT_OPEN),
                journal=options.journal_uri,
                max_in_flight=options.max_in_flight,
                activation_timeout_s=options.timeout_s,
                on_in_doubt=options.on_in_doubt,
                on_divergence=options.on_divergence,
                sequence=sequence,
                namespace=namespace,
                record_content=options.record_content,
                redact=None if options.redact is None else load_object(options.redact, "a function of a text"),
            )
    except ValueError as error:
        raise Complaint(str(error)) from error


def _exporter(uri: str | None) -> Exporter | None:
    if uri is None:
        return None
    try:
        return open_exporter(uri)
    except (ValueError, OSError) as error:
        raise Complaint(str(error)) from error


def _check_provider(config: AgentConfig) -> None:
    try:
        client = load_provider(str(config.model), base_url=config.base_url, api_key_env=config.api_key_env)
    except ValueError as error:
        raise Complaint(str(error)) from error
    if client.missing_key:
        raise Complaint(client.missing_key)


def _check_journal(config: AgentConfig) -> None:
    if config.journal is None:
        return
    try:
        open_journal(config.journal)
    except JournalError as error:
        raise Complaint(str(error)) from error
    except ImportError as error:
        raise Complaint(f"the journal needs a package that is not installed: {error}") from error
