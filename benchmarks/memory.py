"""What an activation in flight holds, by who allocated it."""

from __future__ import annotations

import json
import subprocess
import tracemalloc
from collections import Counter
from functools import partial

from beam_agents import AgentConfig
from beam_agents.values import LlmRequest, LlmResponse
from benchmarks.processes import environment, python
from benchmarks.rows import Row, value
from benchmarks.work import WaitingClient, agent_pipeline, config_for, decode, pairs_of

__all__ = ["held_rows", "print_held"]

_OWNERS = {
    "beam_agents/model": "the facade",
    "beam_agents/activation": "context, staging, line and deadline",
    "beam_agents/beam": "the bundle",
    "apache_beam": "Beam",
    "asyncio": "asyncio's tasks",
}
_found: Counter[str] = Counter()


class _Last(WaitingClient):
    """Looks at the memory when the last of `calls` has come and all of them wait."""

    def __init__(self, calls: int) -> None:
        super().__init__(4.0)
        self._left = calls

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self._left -= 1
        if not self._left:
            for held in tracemalloc.take_snapshot().statistics("filename"):
                _found[_owner(held.traceback[0].filename)] += held.size
        return await super().complete(request)


def held_rows(keys: int) -> list[Row]:
    """A row for each owner, measured in a fresh process."""
    command = python("-c", f"from benchmarks.memory import print_held; print_held({keys})")
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout
    held = sorted(json.loads(told).items(), key=lambda one: -one[1])
    return [value(f"of a key in flight, allocated by {owner}", "KB", bytes_ / keys / 1000) for owner, bytes_ in held]


def _owner(filename: str) -> str:
    return next((owner for part, owner in _OWNERS.items() if part in filename), "others, prompts among them")


def print_held(keys: int) -> None:
    """Entry of the fresh process: run, and print bytes by owner as JSON."""
    agent_pipeline(pairs_of(20), config_for())  # what is imported and cached once is there by now
    pairs = pairs_of(keys)
    config = AgentConfig(provider=partial(_Last, keys), decode=decode, namespace="bench", max_in_flight=keys)
    tracemalloc.start()
    agent_pipeline(pairs, config)
    print(json.dumps(_found))
