"""An agent whose results are JSON, so that an answer that cannot be written is noticed inside its activation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beam_agents.activation.agent import Agent, agent_name
from beam_agents.cli.result_lines import to_json_value

__all__ = ["JsonAgent"]


@dataclass(frozen=True, slots=True)
class JsonAgent:
    """Runs `agent` and turns what it returns into a JSON value."""

    agent: Agent

    @property
    def __name__(self) -> str:
        return agent_name(self.agent)

    async def __call__(self, ctx: Any, event: Any) -> Any:
        result = await self.agent(ctx, event)
        return None if result is None else to_json_value(result)
