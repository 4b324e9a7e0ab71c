"""`complete`: one model call for each element of a stream, without keys or state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import orjson
from pyflink.common import Configuration, Row, Time, TypeInformation, Types
from pyflink.datastream import AsyncDataStream, DataStream, OutputTag, ProcessFunction, RuntimeContext
from pyflink.datastream.functions import AsyncFunction

from beam_agents.activation import (
    Activation,
    AgentConfig,
    DeadLetter,
    Outcome,
    Position,
    Scope,
    resources_for,
    run_activation,
)
from beam_agents.activation.asking import Messages
from beam_agents.activation.context import AgentContext
from beam_agents.activation.events import encode_event
from beam_agents.activation.metrics import Measures
from beam_agents.errors import ActivationTimeout
from beam_agents.flink.metrics import AgentMetrics
from beam_agents.flink.outputs import to_text, unchanged
from beam_agents.flink.streams import AgentStreams
from beam_agents.flink.types import BYTES
from beam_agents.model import FacadeResult
from beam_agents.proto import TraceEvent

__all__ = ["complete"]

_GRACE_S = 10.0
_DEFAULT_BUNDLE = 1_000
_MAIN, _TRACE, _ERROR = 0, 1, 2

ToRequest = Callable[[Any], Messages]
ToOutput = Callable[[Any, FacadeResult], Any]


def complete(
    stream: DataStream,
    to_request: ToRequest,
    config: AgentConfig,
    *,
    to_output: ToOutput | None = None,
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
        config: as for agents; without a `namespace` it is `complete`.
        to_output: makes the output of an element and its result; by default the answer's text.
        output_type: type of `.main`. By default text: a `str` as it is, any other JSON value as its JSON.
        capacity: calls at once in one subtask; by default `config.max_in_flight`. More than 1,000 raises
            the job's `python.fn-execution.bundle.size`, which bounds it.
    """
    capacity = config.max_in_flight if capacity is None else capacity
    if capacity > _DEFAULT_BUNDLE:
        bundle = Configuration()
        bundle.set_string("python.fn-execution.bundle.size", str(capacity))
        stream.get_execution_environment().configure(bundle)
    kept_type = Types.STRING() if output_type is None else output_type
    ask = _Ask(to_request, to_output or _text, to_text if output_type is None else unchanged, config)
    row = Types.ROW([Types.INT(), kept_type, BYTES()])
    timeout = Time.milliseconds(int((config.activation_timeout_s + _GRACE_S) * 1000))
    tagged = AsyncDataStream.unordered_wait(stream, ask, timeout, capacity, row)
    traces, errors = OutputTag("beam_agents.traces", BYTES()), OutputTag("beam_agents.errors", Types.STRING())
    main = tagged.process(_Split(traces, errors, config), output_type=kept_type)
    return AgentStreams(main, main.get_side_output(traces), main.get_side_output(errors))


class _Ask(AsyncFunction):  # type: ignore[misc]
    """Runs one activation on the process's loop; never fails for what it comes to, unless it is to."""

    def __init__(
        self, to_request: ToRequest, to_output: ToOutput, to_kept: Callable[[Any], Any], config: AgentConfig
    ) -> None:
        self._to_request = to_request
        self._to_output = to_output
        self._to_kept = to_kept
        self._config = config

    async def async_invoke(self, value: Any) -> list[Row]:
        """Called by Flink on its own loop."""
        resources = resources_for(self._config)

        async def ask() -> Outcome:
            async with resources.slots:
                return await run_activation(Activation(self._agent, value, self._position(value)), resources)

        outcome = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(), resources.loop.loop))
        if outcome.dead_letter is None:
            traces = [Row(_TRACE, None, event.SerializeToString()) for event in outcome.trace_events]
            return [*(Row(_MAIN, output, None) for output in outcome.outputs), *traces]
        if self._config.on_error == "raise" and isinstance(outcome.error, Exception):
            raise outcome.error
        return [_letter_row(outcome.dead_letter)]

    def timeout(self, value: Any) -> list[Row]:
        """Called by Flink when the hard deadline did not hold: a dead letter instead of a failed job."""
        error = ActivationTimeout(self._config.activation_timeout_s + _GRACE_S)
        return [_letter_row(DeadLetter.of(self._position(value), value, error))]

    async def _agent(self, ctx: AgentContext, value: Any) -> None:
        result = await ctx.complete(self._to_request(value))
        output = self._to_output(value, result)
        if output is not None:
            ctx.emit(self._to_kept(output))

    def _position(self, value: Any) -> Position:
        scope = Scope(self._config.namespace or "complete")
        return Position(scope, sha256(encode_event(value)).digest(), 0)


class _Split(ProcessFunction):  # type: ignore[misc]
    """Parts outputs, traces and dead letters, and counts them."""

    def __init__(self, traces: OutputTag, errors: OutputTag, config: AgentConfig) -> None:
        self._traces = traces
        self._errors = errors
        self._config = config

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called by Flink on the worker."""
        self._resources = resources_for(self._config)
        self._metrics = AgentMetrics(runtime_context)

    def process_element(self, value: Row, ctx: ProcessFunction.Context) -> list[Any]:
        """Called by Flink."""
        del ctx
        kind, output, data = value
        if kind == _MAIN:
            return [output]
        measures = Measures()
        if kind == _TRACE:
            measures.add_committed((TraceEvent.FromString(data),))
        else:
            measures.add_dead_letter(DeadLetter.from_json(orjson.loads(data)))
        self._metrics.record(measures, self._resources)
        return [(self._traces, data) if kind == _TRACE else (self._errors, data.decode())]


def _letter_row(letter: DeadLetter) -> Row:
    return Row(_ERROR, None, orjson.dumps(letter.to_json()))


def _text(element: Any, result: FacadeResult) -> str | None:
    del element
    return result.text
