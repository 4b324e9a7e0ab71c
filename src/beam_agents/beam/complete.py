"""`Complete`: one model call for each element, without keys or state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.coders import Coder
from pydantic import BaseModel

from beam_agents.activation.asking import Messages
from beam_agents.activation.completion import Completion, element_key
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.activation.preflight import require_expressible
from beam_agents.activation.resources import resources_for
from beam_agents.beam.bundle import Bundle, Lane, Pending
from beam_agents.beam.emission import ERRORS, TRACES, Emission, Scopes
from beam_agents.beam.naming import full_label, require_picklable
from beam_agents.beam.outputs import AgentOutputs, register_coders
from beam_agents.beam.state import CellValue
from beam_agents.model import FacadeResult
from beam_agents.proto import TraceEvent

__all__ = ["Complete"]

_EMPTY = CellValue()


class Complete(beam.PTransform):  # type: ignore[misc]
    """Asks the model once for each element, many at once, with retries, breaker, journal, account and traces.

    A call is named by its element: with a journal, equal elements of a window share one answer, and running
    again under one namespace pays nothing twice. The outputs are those of `RunAgent`; `.main` holds
    `(element, FacadeResult)` unless `to_output` says otherwise.

    Args:
        to_request: what to ask for an element: one user message, a list of messages, or an `LlmRequest`.
        config: as for `RunAgent`; `sequence` and `commit` have no meaning here.
        output_schema: Pydantic model that each answer must satisfy.
        to_output: makes the output of element and result; `None` emits nothing.
        reask: how often to ask again after an answer that does not satisfy `output_schema`.

    Raises:
        TypeError: when something cannot be sent to workers, or is not of the right kind.
        ValueError: when `reask` has no sensible value, or no `output_schema`.
        SchemaNotExpressibleError: when the vendor of `config.model` cannot be asked for `output_schema`.
    """

    def __init__(
        self,
        to_request: Callable[[Any], Messages],
        config: AgentConfig,
        *,
        output_schema: type[BaseModel] | None = None,
        to_output: Callable[[Any, FacadeResult], Any] | None = None,
        reask: int = 0,
    ) -> None:
        super().__init__()
        if not callable(to_request):
            raise TypeError(f"to_request must take an element and return what to ask, but is {to_request!r}")
        if not isinstance(config, AgentConfig):
            raise TypeError(f"config must be an AgentConfig, not {type(config).__name__}")
        require_expressible(output_schema, config)
        self._agent = Completion(to_request, to_output or _pair, output_schema, reask)
        self._config = config
        require_picklable("Complete", (self._agent, config))

    def expand(self, elements: beam.PCollection[Any]) -> AgentOutputs:
        register_coders()
        dofn = _CompleteDoFn(
            self._agent,
            self._config,
            self._config.namespace or full_label(elements.pipeline, self.label),
            elements.windowing.windowfn.get_window_coder(),
        )
        found = elements | "Ask" >> beam.ParDo(dofn).with_outputs(TRACES, ERRORS, main="main")
        outputs = AgentOutputs(found["main"], found[TRACES], found[ERRORS])
        outputs.main.element_type = self.get_type_hints().simple_output_type(self.label) or typehints.Any
        outputs.traces.element_type = TraceEvent
        outputs.errors.element_type = DeadLetter
        return outputs

    def type_check_outputs(self, pvalueish: AgentOutputs) -> None:
        """A declared output type is that of `.main`; the other two have types of their own."""


def _pair(element: Any, result: FacadeResult) -> tuple[Any, FacadeResult]:
    return element, result


class _CompleteDoFn(beam.DoFn):  # type: ignore[misc]
    """Runs the calls of a bundle at once; commits nothing but outputs."""

    def __init__(self, agent: Completion, config: AgentConfig, namespace: str, window_coder: Coder) -> None:
        self._agent = agent
        self._config = config
        self._scopes = Scopes(namespace, window_coder)
        self._bundle: Bundle | None = None
        self._emission = Emission()

    def start_bundle(self) -> None:
        self.teardown()

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        pane_info: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        if self._bundle is None:
            self._bundle = Bundle(self._agent, resources_for(self._config))
        bundle = self._bundle
        bundle.require_sound()
        for finished in bundle.until_admitted():
            yield from self._emission.of(finished)
        lane = Lane(element_key(element), self._scopes.of(window), window, None, _EMPTY)
        bundle.submit(lane, Pending(element, timestamp, pane_info))
        for finished in bundle.take_finished():
            yield from self._emission.of(finished)

    def finish_bundle(self) -> Iterator[Any]:
        bundle = self._bundle
        if bundle is None:
            return
        for finished in bundle.remaining():
            yield from self._emission.of(finished)
        self._emission.record(bundle.resources)
        self.teardown()

    def teardown(self) -> None:
        bundle, self._bundle = self._bundle, None
        self._emission = Emission()
        self._scopes.forget()
        if bundle is not None:
            bundle.abandon()
