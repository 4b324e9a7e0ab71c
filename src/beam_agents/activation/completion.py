"""One model call for one element: the agent behind the transforms without keys."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson
from pydantic import BaseModel

from beam_agents.activation.asking import Messages
from beam_agents.activation.context import AgentContext
from beam_agents.model import FacadeResult

__all__ = ["Completion", "element_key"]


@dataclass(frozen=True, slots=True)
class Completion:
    """An agent that asks once for each element and emits what `to_output` makes of element and result.

    Attributes:
        to_request: what to ask for an element: one user message, a list of messages, or an `LlmRequest`.
        to_output: makes the output; `None` emits nothing for that element.
        output_schema: Pydantic model that the answer must satisfy.
        reask: how often to ask again after an answer that does not satisfy it.
        sampling_params: further parameters of every request.
    """

    to_request: Callable[[Any], Messages]
    to_output: Callable[[Any, FacadeResult], Any]
    output_schema: type[BaseModel] | None = None
    reask: int = 0
    sampling_params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("to_request", "to_output"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, but is {getattr(self, name)!r}")
        if isinstance(self.reask, bool) or not isinstance(self.reask, int) or self.reask < 0:
            raise ValueError(f"reask must be an int of at least 0, not {self.reask!r}")
        if self.reask and self.output_schema is None:
            raise ValueError(f"reask={self.reask} has no effect without output_schema")

    async def __call__(self, ctx: AgentContext, element: Any) -> Any:
        """Called by the activation."""
        messages = self.to_request(element)
        result = await ctx.complete(
            messages, output_schema=self.output_schema, reask=self.reask, **self.sampling_params
        )
        return self.to_output(element, result)


def element_key(element: Any) -> bytes:
    """Names an element by its content: equal elements are one, also in another run."""
    try:
        told = orjson.dumps(element, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        told = pickle.dumps(element, protocol=4)
    return sha256(told).digest()
