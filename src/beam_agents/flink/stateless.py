"""`complete`: one model call for each element of a stream, without keys or state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from pydantic import BaseModel
from pyflink.common import Configuration, Row, Time, TypeInformation, Types
from pyflink.datastream import AsyncDataStream, DataStream, ProcessFunction, RuntimeContext
from pyflink.datastream.functions import AsyncFunction

from beam_agents.activation import (
    Activation,
    Agent,
    AgentConfig,
    DeadLetter,
    Outcome,
    Position,
    Resources,
    Scope,
    resources_for,
    run_activation,
)
from beam_agents.activation.asking import Messages
from beam_agents.activation.completion import Completion, element_key
from beam_agents.activation.metrics import Measures
from beam_agents.activation.preflight import require_expressible
from beam_agents.activation.run import failure_of, refused
from beam_agents.errors import ActivationTimeout
from beam_agents.flink.metrics import AgentMetrics
from beam_agents.flink.outputs import converting, to_text, unchanged
from beam_agents.flink.side_outputs import AgentStreams, Parting, Tags, letter_row, row_type, rows_of
from beam_agents.model import FacadeResult
from beam_agents.proto import TraceEvent

__all__ = ["complete"]

_GRACE_S = 10.0
_DEFAULT_BUNDLE = 1_000


def complete(
    stream: DataStream,
    to_request: Callable[[Any], Messages],
    config: AgentConfig,
    *,
    output_schema: type[BaseModel] | None = None,
    to_output: Callable[[Any, FacadeResult], Any] | None = None,
    reask: int = 0,
    output_type: TypeInformation | None = None,
    capacity: int | None = None,
) -> AgentStreams:
    """Ask the model once for each element, with retries, breaker, journal, account and traces.

    Order is not kept; event times are. A call is named by its element: equal elements share one journaled
    answer. A bundle of Flink's waits for all of its calls, and a checkpoint for the bundle; where some calls
    take seconds, `run_agent` is faster.

    Args:
        stream: the elements.
        to_request: what to ask for an element: one user message, a list of messages, or an `LlmRequest`.
        config: as for agents; without a `namespace` it is `complete`. `sequence` has no meaning here.
        output_schema: Pydantic model that each answer must satisfy.
        to_output: makes the output of an element and its result; by default the answer's text.
        reask: how often to ask again after an answer that does not satisfy `output_schema`.
        output_type: type of `.main`. By default text: a `str` as it is, any other JSON value as its JSON.
        capacity: calls at once in one subtask; by default `config.max_in_flight`. More than 1,000 raises
            the job's `python.fn-execution.bundle.size`, which bounds it.

    Raises:
        SchemaNotExpressibleError: when the vendor of `config.model` cannot be asked for `output_schema`.
    """
    require_expressible(output_schema, config)
    capacity = config.max_in_flight if capacity is None else capacity
    if capacity > _DEFAULT_BUNDLE:
        bundle = Configuration()
        bundle.set_string("python.fn-execution.bundle.size", str(capacity))
        stream.get_execution_environment().configure(bundle)
    to_kept, kept_type = (to_text, Types.STRING()) if output_type is None else (unchanged, output_type)
    asking = Ask(converting(Completion(to_request, to_output or _text, output_schema, reask), to_kept), config)
    limit = Time.milliseconds(asking.limit_ms)
    rows = AsyncDataStream.unordered_wait(stream, asking, limit, capacity, row_type(kept_type))
    tags = Tags.of_agents()
    return AgentStreams(rows.process(CountedParting(tags, config), output_type=kept_type), tags)


class Ask(AsyncFunction):  # type: ignore[misc]
    """Runs one activation on the process's loop; never fails for what it comes to, unless it is to."""

    def __init__(self, agent: Agent, config: AgentConfig) -> None:
        self._agent = agent
        self._config = config

    @property
    def limit_ms(self) -> int:
        """When Flink gives a call up: after its wait for a slot, its own deadline, and some grace."""
        return int((2 * self._config.activation_timeout_s + _GRACE_S) * 1000)

    async def async_invoke(self, value: Any) -> list[Row]:
        """Called by Flink on its own loop."""
        resources = resources_for(self._config)
        running = asyncio.run_coroutine_threadsafe(self._run(value, resources), resources.loop.loop)
        outcome = await asyncio.wrap_future(running)
        failure = failure_of(outcome, self._config.on_error)
        if failure is not None:
            raise failure
        return rows_of(outcome)

    def timeout(self, value: Any) -> list[Row]:
        """Called by Flink when even the hard deadline did not hold: a dead letter instead of a failed job."""
        return [letter_row(DeadLetter.of(self._position(value), value, ActivationTimeout(self.limit_ms / 1000)))]

    async def _run(self, value: Any, resources: Resources) -> Outcome:
        """The activation, once it has a slot; the wait for one has the same deadline as the activation itself."""
        activation = Activation(self._agent, value, self._position(value))
        try:
            await asyncio.wait_for(resources.slots.__aenter__(), self._config.activation_timeout_s)
        except TimeoutError:
            return refused(activation, ActivationTimeout(self._config.activation_timeout_s), resources)
        try:
            return await run_activation(activation, resources)
        finally:
            await resources.slots.__aexit__()

    def _position(self, value: Any) -> Position:
        return Position(Scope(self._config.namespace or "complete"), element_key(value), 0)


class CountedParting(Parting):
    """Counts what it parts: metrics are lost on any thread but this one."""

    def __init__(self, tags: Tags, config: AgentConfig) -> None:
        super().__init__(tags)
        self._config = config

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called by Flink on the worker."""
        self._resources = resources_for(self._config)
        self._metrics = AgentMetrics(runtime_context)

    def process_element(self, value: Row, ctx: ProcessFunction.Context) -> Iterator[Any]:
        """Called by Flink."""
        traces, letter = value[2], value[3]
        measures = Measures()
        if traces:
            measures.add_committed(map(TraceEvent.FromString, traces))
        if letter is not None:
            measures.add_dead_letter(DeadLetter.from_json(orjson.loads(letter)))
        self._metrics.record(measures, self._resources)
        self._metrics.tell()
        return super().process_element(value, ctx)


def _text(element: Any, result: FacadeResult) -> str | None:
    del element
    return result.text
