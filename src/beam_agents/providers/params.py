"""Sampling parameters on their way to a wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_agents.values import LlmRequest

__all__ = ["renamed", "wire_params"]

_FIXED = ("model", "messages", "stream")
_OURS = "beam_agents."


def wire_params(request: LlmRequest) -> dict[str, Any]:
    """The request's parameters without those that are ours alone; tools under `tools`.

    Raises:
        ValueError: for `model`, `messages` and `stream`, which the request itself sets.
    """
    params = {name: value for name, value in (request.sampling_params or {}).items() if not name.startswith(_OURS)}
    for name in _FIXED:
        if name in params:
            raise ValueError(f"sampling_params cannot hold {name!r}: the request sets it; remove it")
    if request.tools_schema:
        params["tools"] = request.tools_schema
    return params


def renamed(params: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Takes the parameters that `names` maps out of `params`; those that are not `None` under their wire names."""
    taken = {wire: params.pop(neutral) for neutral, wire in names.items() if neutral in params}
    return {wire: value for wire, value in taken.items() if value is not None}
