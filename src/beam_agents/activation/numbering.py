"""Positions that events give themselves."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

from beam_agents.activation.config import AgentConfig
from beam_agents.activation.resources import Resources
from beam_agents.activation.run import Activation, Outcome, refused, run_activation

__all__ = ["run_numbered", "seq_of"]

_INT64 = 2**63


def seq_of(event: Any, counted: int, config: AgentConfig) -> int:
    """The position of `event` among those of its key: its own, or else the `counted` one.

    Raises:
        TypeError, ValueError: when `config.sequence` returns no number of 64 bits; and whatever it raises itself.
    """
    if config.sequence is None:
        return counted
    given: Any = config.sequence(event)
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"sequence must return an int, not {type(given).__name__}")
    seq = operator.index(given)  # NumPy's integers are none of Python's
    if not -_INT64 <= seq < _INT64 - 1:
        raise ValueError(f"sequence must return a number of 64 bits, not {seq}")
    return seq


async def run_numbered(activation: Activation, resources: Resources) -> Outcome:
    """`run_activation` at the event's own position, where it has one. One that it cannot tell is a dead letter."""
    position = activation.position
    try:
        seq = seq_of(activation.event, position.seq, resources.config)
    except Exception as error:
        return refused(activation, error, resources)
    if seq != position.seq:
        activation = replace(activation, position=replace(position, seq=seq))
    return await run_activation(activation, resources)
