"""`RunAgent`: agents over keyed events."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.typehints.typehints import TupleConstraint, UnionConstraint

from beam_agents.activation.agent import Agent, agent_name, require_agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.activation.events import encode_key
from beam_agents.activation.preflight import warn_of_schemas
from beam_agents.beam.buckets import run_in_buckets
from beam_agents.beam.dofn import AgentDoFn
from beam_agents.beam.emission import ERRORS, TRACES
from beam_agents.beam.expiring import ExpiringAgentDoFn
from beam_agents.beam.naming import full_label, require_picklable
from beam_agents.beam.outputs import AgentOutputs, register_coders
from beam_agents.beam.timed import TimedAgentDoFn
from beam_agents.beam.timers import require_timers
from beam_agents.beam.versions import needs_official_api
from beam_agents.proto import TraceEvent

__all__ = ["RunAgent"]


class RunAgent(beam.PTransform):  # type: ignore[misc]
    """Runs `agent` for each `(key, event)` pair, many at once, in order for each key.

    Keys are `str` or `bytes`. The result has three outputs: `.main` (what agents emit, in their events'
    windows and at their times), `.traces` (`TraceEvent`) and `.errors` (`DeadLetter`).

    Args:
        agent: `async def agent(ctx, event)`; what it returns is emitted unless it is `None`.
        config: how agents run and reach their model.
        official_api: whether to use nothing but Beam's documented interface, see `run_in_buckets`: slower to
            put out, and safe on any version of Beam. `None` decides by whether this version was tested. The two
            ways keep their state differently: do not change it for a running pipeline.

    Raises:
        TypeError: when `agent` is not a coroutine function of two arguments, when it or `config` cannot be
            sent to workers, or, when applied, when the input does not hold pairs with such keys.
        ValueError: when `config` asks for what this transform cannot do.
    """

    def __init__(self, agent: Agent, config: AgentConfig, *, official_api: bool | None = None) -> None:
        super().__init__()
        require_agent(agent)
        if not isinstance(config, AgentConfig):
            raise TypeError(f"config must be an AgentConfig, not {type(config).__name__}")
        require_picklable("agent", agent)
        require_picklable("config", config)
        warn_of_schemas(agent, config)
        self._agent = agent
        self._config = config
        self._official_api = official_api

    def expand(self, pairs: beam.PCollection[Any]) -> AgentOutputs:
        register_coders()
        event_type = _event_type(pairs.element_type, self.label)
        namespace = self._config.namespace or full_label(pairs.pipeline, self.label)
        keyed = pairs | "Key" >> beam.Map(_keyed).with_output_types(typehints.Tuple[bytes, event_type])
        if self._config.commit == "timer":
            require_timers(pairs, self._config)
            dofn: Any = TimedAgentDoFn(self._agent, self._config, namespace)
            found = keyed | "Run" >> beam.ParDo(dofn).with_outputs(TRACES, ERRORS, main="main")
        elif needs_official_api(self._official_api):
            if self._config.state_ttl_s is not None:
                raise ValueError("state_ttl_s is not available with Beam's documented interface alone")
            found = run_in_buckets(keyed, self._agent, self._config, namespace, event_type)
        else:
            window_coder = pairs.windowing.windowfn.get_window_coder()
            kind = AgentDoFn if self._config.state_ttl_s is None else ExpiringAgentDoFn
            dofn = kind(self._agent, self._config, namespace, window_coder)
            found = keyed | "Run" >> beam.ParDo(dofn).with_outputs(TRACES, ERRORS, main="main")
        outputs = AgentOutputs(found["main"], found[TRACES], found[ERRORS])
        outputs.main.element_type = self.get_type_hints().simple_output_type(self.label) or typehints.Any
        outputs.traces.element_type = TraceEvent
        outputs.errors.element_type = DeadLetter
        return outputs

    def type_check_outputs(self, pvalueish: AgentOutputs) -> None:
        """A declared output type is that of `.main`; the other two have types of their own."""

    def default_label(self) -> str:
        return f"RunAgent({agent_name(self._agent)})"

    def display_data(self) -> dict[str, Any]:
        return {"agent": agent_name(self._agent), "model": str(self._config.model or "provider")}


def _keyed(pair: Any) -> tuple[bytes, Any]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(f"RunAgent needs (key, event) pairs, but got a {type(pair).__name__}: {_ADVICE}")
    key, event = pair
    if isinstance(key, bytes):
        return key, event
    if isinstance(key, str):
        return encode_key(key), event
    raise TypeError(f"RunAgent needs keys of str or bytes, but got one of {type(key).__name__}: {_ADVICE}")


_ADVICE = "put beam.Map(lambda event: (key_of(event), event)) before it"


def _event_type(element_type: Any, label: str) -> Any:
    """The type of the events; raises `TypeError` when it is certain that elements are no pairs with fit keys."""
    if element_type is None or element_type == typehints.Any:
        return typehints.Any
    if isinstance(element_type, UnionConstraint):
        return typehints.Union[[_event_type(one, label) for one in element_type.union_types]]
    if isinstance(element_type, type) and issubclass(element_type, tuple):
        return typehints.Any
    if not isinstance(element_type, TupleConstraint) or len(element_type.tuple_types) != 2:
        raise TypeError(f"{label} needs (key, event) pairs, but its input holds {element_type}: {_ADVICE}")
    key_type, event_type = element_type.tuple_types
    if not _may_be_key(key_type):
        raise TypeError(f"{label} needs keys of str or bytes, but its input has keys of {key_type}: {_ADVICE}")
    return event_type


def _may_be_key(key_type: Any) -> bool:
    if isinstance(key_type, UnionConstraint):
        return any(map(_may_be_key, key_type.union_types))
    if not isinstance(key_type, type):
        return bool(key_type == typehints.Any)
    return issubclass(key_type, (str, bytes)) or key_type is object
