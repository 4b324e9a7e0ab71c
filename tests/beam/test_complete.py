"""Calls without keys: `Complete`, and `RunInference` over the facade."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
import pytest
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from pydantic import BaseModel

from beam_agents import AgentConfig, Complete, FacadeModelHandler
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.errors import JournalOpenError, SchemaNotExpressibleError
from beam_agents.model import LlmRequest, OutputSchemaError
from beam_agents.testing import match_any, match_contains, respond_with
from tests.beam import scripted
from tests.beam.conftest import config, options


class Verdict(BaseModel):
    good: bool


def _text(element: Any, result: Any) -> Any:
    return element, result.text


def _complete(runner: str, elements: list[Any], transform: Complete) -> Any:
    pipeline = beam.Pipeline(options=options(runner))
    scripted.keep_all(pipeline | beam.Create(elements) | transform)
    result = pipeline.run()
    result.wait_until_finish()
    return result


def test_each_element_is_asked_and_answered(runner: str) -> None:
    scripted.answer_all()
    _complete(runner, list(range(20)), Complete(lambda n: f"number {n}", config(), to_output=_text))
    assert sorted(scripted.kept["main"]) == [(n, "hello") for n in range(20)]
    assert scripted.llm.call_count == 20
    assert len({event.trace_id for event in scripted.kept["traces"]}) == 20


def test_calls_overlap_up_to_the_cap(runner: str) -> None:
    scripted.answer_all(latency_ms=20)
    _complete(runner, list(range(40)), Complete(str, config(max_in_flight=8), to_output=_text))
    assert 1 < scripted.gauge.peak <= 8


def test_by_default_element_and_result_come_out(runner: str) -> None:
    scripted.llm.add_rule(match_any(), respond_with(orjson.dumps({"text": '{"good": true}', "usage": [1, 1]})))
    request = LlmRequest("m", [{"role": "user", "content": "q"}], None, {"temperature": 0})
    _complete(runner, ["a"], Complete(lambda _: request, config(), output_schema=Verdict))
    ((element, result),) = scripted.kept["main"]
    assert (element, result.parsed, result.usage.total_tokens) == ("a", Verdict(good=True), 2)
    assert scripted.llm.requests[0].model_id == "m"


def test_equal_elements_share_one_journaled_answer(runner: str) -> None:
    scripted.answer_all(latency_ms=10)
    elements = [{"id": 1, "x": 2}, {"x": 2, "id": 1}, {"id": 2}]
    transform = Complete(lambda event: f"{event['id']}", config(journal="memory://equal"), to_output=_text)
    _complete(runner, elements, transform)
    assert len(scripted.kept["main"]) == 3
    assert scripted.llm.call_count == 2


def test_a_failed_call_is_a_dead_letter(runner: str) -> None:
    scripted.answer_all()

    def to_request(element: Any) -> str:
        if element == 1:
            raise ValueError("cannot be asked")
        return str(element)

    result = _complete(runner, [1, 2], Complete(to_request, config(), to_output=_text))
    (letter,) = scripted.kept["errors"]
    assert (letter.event, letter.error_type) == (1, "ValueError")
    assert scripted.kept["main"] == [(2, "hello")]
    counters = result.metrics().query(MetricsFilter().with_name("activations_failed"))["counters"]
    assert [counter.committed for counter in counters] == [1]


def test_windows_and_timestamps_are_kept(runner: str) -> None:
    scripted.answer_all()

    def placed(value: Any, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam) -> None:
        scripted.keep("placed", (value[0], float(at), float(window.start)))

    pipeline = beam.Pipeline(options=options(runner))
    outputs = (
        pipeline
        | beam.Create([1, 12])
        | beam.Map(lambda at: TimestampedValue(at, at))
        | beam.WindowInto(FixedWindows(10))
        | Complete(str, config(), to_output=_text)
    )
    outputs.main | beam.Map(placed)
    pipeline.run().wait_until_finish()
    assert sorted(scripted.kept["placed"]) == [(1, 1, 0), (12, 12, 10)]


def test_a_retried_bundle_pays_nothing_twice() -> None:
    scripted.answer_all()

    def output(element: Any, result: Any) -> Any:
        if element == 19 and scripted.once("failed"):
            raise RuntimeError("once")
        return element

    transform = Complete(str, config(on_error="raise", journal="memory://complete"), to_output=output)
    _complete("BundleBasedDirectRunner", list(range(20)), transform)
    assert sorted(scripted.kept["main"]) == list(range(20))
    assert scripted.llm.call_count == 20


def test_wrong_use_is_told_when_built() -> None:
    with pytest.raises(TypeError, match="to_request must take an element"):
        Complete("text", config())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an AgentConfig"):
        Complete(str, {})  # type: ignore[arg-type]


def _infer(handler: Any, examples: list[Any], **arguments: Any) -> Any:
    pipeline = beam.Pipeline(options=options("FnApiRunner"))
    results = pipeline | beam.Create(examples) | RunInference(handler, **arguments)
    results | beam.Map(lambda result: scripted.keep("results", result))
    result = pipeline.run()
    result.wait_until_finish()
    return result


def test_run_inference_goes_through_the_facade() -> None:
    scripted.answer_all(latency_ms=5)
    result = _infer(FacadeModelHandler(config()), ["a", "b", "c"], inference_args={"temperature": 0})
    assert sorted((one.example, one.inference.text) for one in scripted.kept["results"]) == [
        ("a", "hello"),
        ("b", "hello"),
        ("c", "hello"),
    ]
    assert {tuple(request.sampling_params.items()) for request in scripted.llm.requests} == {(("temperature", 0),)}
    counters = result.metrics().query(MetricsFilter().with_namespace("beam_agents").with_name("calls"))["counters"]
    assert [counter.committed for counter in counters] == [3]


def test_run_inference_with_keys() -> None:
    scripted.answer_all()
    _infer(KeyedModelHandler(FacadeModelHandler(config())), [("k", "a")])
    ((key, result),) = scripted.kept["results"]
    assert (key, result.example, result.inference.text) == ("k", "a", "hello")


def test_run_inference_pays_nothing_twice() -> None:
    scripted.answer_all()
    for _ in range(2):
        _infer(FacadeModelHandler(config(journal="memory://inference")), ["a", "b"])
    assert scripted.llm.call_count == 2


def test_a_failed_example_is_its_dead_letter_and_spares_the_others() -> None:
    scripted.llm.add_rule(match_contains("bad"), respond_with(orjson.dumps({"text": "no json", "usage": [1, 1]})))
    scripted.llm.add_rule(match_any(), respond_with(orjson.dumps({"text": '{"good": true}', "usage": [1, 1]})))
    _infer(FacadeModelHandler(config(), output_schema=Verdict), ["bad", "fine"])
    found = {one.example: one.inference for one in scripted.kept["results"]}
    assert isinstance(found["bad"], DeadLetter)
    assert found["bad"].reason == "invalid_json"
    assert found["fine"].parsed.good


def test_a_failed_example_fails_the_batch_when_told_to() -> None:
    scripted.llm.add_rule(match_any(), respond_with(orjson.dumps({"text": "no json", "usage": [1, 1]})))
    with pytest.raises((RuntimeError, OutputSchemaError), match="not valid JSON"):
        _infer(FacadeModelHandler(config(on_error="raise"), output_schema=Verdict), ["bad"])


def _exits(example: Any) -> Any:
    raise SystemExit(1)


def test_whatever_an_example_raises_fails_the_batch_when_told_to() -> None:
    handler = FacadeModelHandler(config(on_error="raise"), to_request=_exits)
    with pytest.raises(RuntimeError, match="failed with SystemExit: 1"):
        handler.run_inference(["a"], handler.load_model())


def test_a_journal_that_cannot_be_opened_fails_the_batch(tmp_path: Path) -> None:
    handler = FacadeModelHandler(config(journal=f"sqlite:///{tmp_path}/nowhere/j.db"))
    with pytest.raises(JournalOpenError):
        handler.run_inference(["a"], handler.load_model())


@pytest.mark.parametrize("construct", [partial(Complete, str), FacadeModelHandler])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"reask": -1, "output_schema": Verdict}, "reask must be an int of at least 0, not -1"),
        ({"reask": 2}, "reask=2 has no effect without output_schema"),
    ],
)
def test_a_senseless_reask_is_refused_when_built(construct: Any, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        construct(config(), **wrong)


@pytest.mark.parametrize("size", [0, -3, True, 1.5])
def test_a_senseless_batch_size_is_refused_when_built(size: Any) -> None:
    with pytest.raises(ValueError, match="max_batch_size must be an int of at least 1, not"):
        FacadeModelHandler(config(), max_batch_size=size)


def test_what_is_no_function_is_refused_when_built() -> None:
    with pytest.raises(TypeError, match="to_output must be a function, but is 'x'"):
        Complete(str, config(), to_output="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="to_request must be a function, but is 'x'"):
        FacadeModelHandler(config(), to_request="x")  # type: ignore[arg-type]


class FreeKeys(BaseModel):
    tags: dict[str, str]


@pytest.mark.parametrize(
    "construct",
    [
        lambda config: Complete(str, config, output_schema=FreeKeys),
        lambda config: FacadeModelHandler(config, output_schema=FreeKeys),
    ],
)
def test_a_schema_that_the_vendor_cannot_be_asked_for_fails_at_construction(
    construct: Callable[[AgentConfig], Any],
) -> None:
    with pytest.raises(SchemaNotExpressibleError, match="field 'tags'"):
        construct(AgentConfig("openai:m"))
    assert construct(AgentConfig("gemini:m")) is not None
