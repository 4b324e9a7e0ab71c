"""Which activation is run again, over which events, under which configuration."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from beam_agents.activation.agent import Agent
from beam_agents.activation.config import AgentConfig
from beam_agents.cli.agent_ref import load_agent
from beam_agents.cli.complaint import Complaint
from beam_agents.cli.events import Format, read_events
from beam_agents.cli.json_agent import JsonAgent
from beam_agents.cli.keys import key_of_text
from beam_agents.cli.namespaces import model_of
from beam_agents.cli.run_options import RunOptions
from beam_agents.cli.wording import counted
from beam_agents.providers import load_provider

__all__ = ["ReplayOptions", "ReplayPlan", "chosen_namespace", "make_plan"]

_KEYS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The arguments of one replay, as they were given."""

    agent: str
    input: str
    entity: str
    seq: int
    journal: str = "sqlite:///journal.db"
    key: str | None = None
    format: Format | None = None
    namespace: str | None = None
    model: str | None = None
    what_if: str | None = None
    prices: str | None = None
    answers: bool = False
    as_json: bool = False

    @property
    def default_namespace(self) -> str | None:
        """The namespace that a run with these arguments has; `None` where the model is not told."""
        if self.namespace is not None or self.model is None:
            return self.namespace
        return RunOptions(self.agent, self.model, self.input).namespace_at("")

    @property
    def own_namespaces(self) -> str:
        """How the namespaces of runs of this agent over this input begin, whatever their model."""
        return RunOptions(self.agent, "", self.input).namespace_at("")


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What to run again: the key's events up to the one that is asked about.

    Attributes:
        what_if: another model to look at, such as `openai:gpt-4o-mini`, or `None`.
    """

    agent: Agent
    entity_key: bytes
    seq: int
    events: tuple[Any, ...]
    what_if: str | None

    def config(self, options: ReplayOptions, namespace: str) -> AgentConfig:
        """The configuration of the run that is looked at. Raises `Complaint` when its model is not known."""
        model = options.model or model_of(namespace)
        if not model:
            raise Complaint(
                f"the namespace {namespace!r} does not tell the model's vendor; say it with --model, such as "
                "openai:gpt-4o-mini"
            )
        return _config(model)

    def other_config(self) -> AgentConfig | None:
        """The configuration under `--what-if`, or `None` without it."""
        return None if self.what_if is None else _config(self.what_if)


def make_plan(options: ReplayOptions) -> ReplayPlan:
    """Check the arguments and find the key's events.

    Raises:
        Complaint: for the first that will not do.
    """
    agent = JsonAgent(load_agent(options.agent))
    pairs = read_events(options.input, key=options.key, format=options.format)
    key = key_of_text(options.entity)
    events = tuple(event for name, event in pairs if name.encode("utf-8") == key)
    if not events:
        keys = list(dict.fromkeys(name for name, _ in pairs))
        more = ", …" if len(keys) > _KEYS_SHOWN else ""
        raise Complaint(
            f"{options.input} has no event of the key {options.entity!r}; its keys are "
            f"{', '.join(keys[:_KEYS_SHOWN])}{more} (--key names their field)"
        )
    if not 0 <= options.seq < len(events):
        raise Complaint(
            f"{options.input} has {counted(len(events), 'event')} of the key {options.entity!r}, so --seq goes from 0 "
            f"to {len(events) - 1}, not {options.seq}"
        )
    return ReplayPlan(agent, key, options.seq, events[: options.seq + 1], _other_model(options.what_if))


def chosen_namespace(options: ReplayOptions, known: list[str]) -> str | None:
    """The namespace meant, out of those under which the journal knows the position; `None` when it knows it under none.

    Raises:
        Complaint: when it could be several.
    """
    given = options.default_namespace
    if given is not None:
        return given if given in known else None
    own = [one for one in known if one.startswith(options.own_namespaces)]
    candidates = own or known
    if len(candidates) > 1:
        raise Complaint(
            f"the journal knows this position under {len(candidates)} namespaces; choose one with --namespace: "
            + ", ".join(f"'{one}'" for one in candidates)
        )
    return candidates[0] if candidates else None


def _other_model(what_if: str | None) -> str | None:
    if what_if is None:
        return None
    name, equals, value = what_if.partition("=")
    if name.strip() != "model" or not equals or not value.strip():
        raise Complaint(f"--what-if must look like model=openai:gpt-4o-mini, not {what_if!r}")
    _config(value.strip())
    return value.strip()


def _config(model: str) -> AgentConfig:
    try:
        load_provider(model)
        with warnings.catch_warnings(action="ignore"):
            return AgentConfig(model)
    except ValueError as error:
        raise Complaint(str(error)) from error
