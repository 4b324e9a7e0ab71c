"""Resilient, replayable, accountable calls of language models from inside Apache Beam pipelines."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_agents.activation.config import AgentConfig
    from beam_agents.activation.context import AgentContext
    from beam_agents.activation.dead_letter import DeadLetter
    from beam_agents.beam.complete import Complete
    from beam_agents.beam.export import ExportTraces
    from beam_agents.beam.model_handler import FacadeModelHandler
    from beam_agents.beam.outputs import AgentOutputs
    from beam_agents.beam.runners import local_options
    from beam_agents.beam.transform import RunAgent

__all__ = [
    "AgentConfig",
    "AgentContext",
    "AgentOutputs",
    "Complete",
    "DeadLetter",
    "ExportTraces",
    "FacadeModelHandler",
    "RunAgent",
    "local_options",
]

_MODULES = {
    "AgentConfig": "beam_agents.activation.config",
    "AgentContext": "beam_agents.activation.context",
    "AgentOutputs": "beam_agents.beam.outputs",
    "Complete": "beam_agents.beam.complete",
    "DeadLetter": "beam_agents.activation.dead_letter",
    "ExportTraces": "beam_agents.beam.export",
    "FacadeModelHandler": "beam_agents.beam.model_handler",
    "RunAgent": "beam_agents.beam.transform",
    "local_options": "beam_agents.beam.runners",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: importing the facade does not import Beam."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
