"""The same agents on Apache Flink, through PyFlink's public API. Needs the extra `pyflink`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_agents.flink.side_outputs import AgentStreams
    from beam_agents.flink.stateless import complete
    from beam_agents.flink.streams import run_agent

__all__ = ["AgentStreams", "complete", "run_agent"]

_HOMES = {"AgentStreams": "side_outputs", "complete": "stateless", "run_agent": "streams"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
