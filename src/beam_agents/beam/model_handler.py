"""`FacadeModelHandler`: Beam's `RunInference` over the facade."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apache_beam.ml.inference.base import ModelHandler, PredictionResult
from pydantic import BaseModel

from beam_agents.activation.asking import Messages
from beam_agents.activation.completion import Completion, element_key
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.loop import STALLED_MARGIN_S
from beam_agents.activation.metrics import Measures
from beam_agents.activation.preflight import require_expressible
from beam_agents.activation.resources import Resources, resources_for
from beam_agents.activation.run import Activation, Outcome, failure_of, run_activation
from beam_agents.activation.staging import Position, Scope
from beam_agents.beam.metrics import record
from beam_agents.beam.naming import require_picklable
from beam_agents.model import FacadeResult

__all__ = ["FacadeModelHandler"]


class FacadeModelHandler(ModelHandler):  # type: ignore[misc]
    """Gives a `RunInference` pipeline replay, retries, breaker, output schemas and an account.

    The examples of a batch are asked at once. Each yields a `PredictionResult` whose `inference` is a
    `FacadeResult`; with `on_error="dead_letter"` that of a failed example is its `DeadLetter`, with
    `on_error="raise"` it fails the batch, once the others are through; so does a journal that cannot be opened,
    in either case. With a journal a batch that is retried pays for nothing that was answered. `inference_args`
    are sampling parameters.

    Args:
        config: how the model is reached; `namespace` (default `run_inference`) scopes the journal.
        to_request: what to ask for an example; by default the example itself.
        output_schema: Pydantic model that each answer must satisfy.
        reask: how often to ask again after an answer that does not satisfy it.
        max_batch_size: examples in a batch; by default `config.max_in_flight`.

    Raises:
        TypeError, ValueError: when something cannot be sent to workers, or has no sensible value.
        SchemaNotExpressibleError: when the vendor of `config.model` cannot be asked for `output_schema`.
    """

    def __init__(
        self,
        config: AgentConfig,
        *,
        to_request: Callable[[Any], Messages] | None = None,
        output_schema: type[BaseModel] | None = None,
        reask: int = 0,
        max_batch_size: int | None = None,
    ) -> None:
        if not isinstance(config, AgentConfig):
            raise TypeError(f"config must be an AgentConfig, not {type(config).__name__}")
        size = config.max_in_flight if max_batch_size is None else max_batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"max_batch_size must be an int of at least 1, not {size!r}")
        super().__init__(max_batch_size=size)
        self._config = config
        require_expressible(output_schema, config)
        self._completion = Completion(to_request or _itself, _result, output_schema, reask)
        require_picklable("FacadeModelHandler", (self._completion, config))

    def load_model(self) -> Resources:
        """What calls share in this process; nothing is loaded."""
        return resources_for(self._config)

    def run_inference(
        self, batch: Sequence[Any], model: Resources, inference_args: Mapping[str, Any] | None = None
    ) -> Iterable[PredictionResult]:
        """Ask for every example of the batch at once; results in the order of the examples."""
        completion = replace(self._completion, sampling_params=dict(inference_args or {}))
        outcomes = model.loop.run_watched(
            self._outcomes(completion, batch, model), self._config.activation_timeout_s + STALLED_MARGIN_S
        )
        for outcome in outcomes:
            failure = failure_of(outcome, self._config.on_error)
            if failure is not None:
                raise failure
        results = [
            PredictionResult(example, outcome.dead_letter or outcome.outputs[0], self._config.model)
            for example, outcome in zip(batch, outcomes, strict=True)
        ]
        measures = Measures()
        for outcome in outcomes:
            measures.add(outcome)
        record(measures, model)
        return results

    def get_num_bytes(self, batch: Sequence[Any]) -> int:
        """Size of the examples, pickled."""
        return len(pickle.dumps(list(batch)))

    def get_metrics_namespace(self) -> str:
        """Namespace of `RunInference`'s own metrics; ours are in `beam_agents`."""
        return "BeamML_beam_agents"

    def validate_inference_args(self, inference_args: dict[str, Any] | None) -> None:
        """Sampling parameters are welcome."""

    async def _outcomes(self, completion: Completion, batch: Sequence[Any], resources: Resources) -> list[Outcome]:
        scope = Scope(self._config.namespace or "run_inference")

        async def one(example: Any) -> Outcome:
            position = Position(scope, element_key(example), 0)
            async with resources.slots:
                return await run_activation(Activation(completion, example, position), resources)

        return await asyncio.gather(*map(one, batch))


def _itself(example: Any) -> Any:
    return example


def _result(example: Any, result: FacadeResult) -> FacadeResult:
    del example
    return result
