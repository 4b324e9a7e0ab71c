"""One agent run, free of any engine."""

from beam_agents.activation.agent import Agent, require_agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.context import AgentContext
from beam_agents.activation.dead_letter import DeadLetter, EncodedEvent
from beam_agents.activation.loop import ActivationLoop, activation_loop, close_activation_loop
from beam_agents.activation.resources import Resources, resources_for
from beam_agents.activation.run import Activation, Outcome, run_activation
from beam_agents.activation.spend import CallSpend
from beam_agents.activation.staging import Position, Scope

__all__ = [
    "Activation",
    "ActivationLoop",
    "Agent",
    "AgentConfig",
    "AgentContext",
    "CallSpend",
    "DeadLetter",
    "EncodedEvent",
    "Outcome",
    "Position",
    "Resources",
    "Scope",
    "activation_loop",
    "close_activation_loop",
    "require_agent",
    "resources_for",
    "run_activation",
]
