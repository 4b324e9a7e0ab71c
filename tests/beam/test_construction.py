"""Wrong use is told when the pipeline is built, in a sentence."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import registry

import beam_agents
from beam_agents import AgentConfig, RunAgent
from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.beam import DeadLetterCoder, local_arguments
from beam_agents.beam.runners import disable_state_cache
from beam_agents.beam.versions import TESTED_BEAM_MINORS, is_tested
from beam_agents.proto import TraceEvent
from tests.beam.conftest import ENVIRONMENT, config


async def _agent(ctx: Any, event: Any) -> Any:
    return event


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        ([1, 2], r"\(key, event\) pairs"),
        (["text"], r"\(key, event\) pairs"),
        ([("a", 1, 2)], r"\(key, event\) pairs"),
        ([(1, "event")], "keys of str or bytes"),
        ([({"id": 1}["id"], "event")], "keys of str or bytes"),
    ],
)
def test_input_without_fit_keys_is_refused_when_applied(elements: list[Any], said: str) -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    with pytest.raises(TypeError, match=said):
        pipeline | beam.Create(elements) | RunAgent(_agent, config())


@pytest.mark.parametrize("element", [7, ("a", "b", "c"), (3, "event"), ["k", 1]])
def test_input_of_unknown_type_is_refused_by_element(element: Any) -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    untyped = pipeline | beam.Create([0]) | beam.Map(lambda _: element).with_output_types(beam.typehints.Any)
    untyped | RunAgent(_agent, config())
    with pytest.raises(TypeError, match="RunAgent needs"):
        pipeline.run()


def _plain(ctx: Any, event: Any) -> None: ...


async def _of_one(ctx: Any) -> None: ...


async def _yielding(ctx: Any, event: Any) -> Any:
    yield event


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (_plain, "async def"),
        (_of_one, r"\(ctx, event\)"),
        ("agent", "cannot be called"),
        (len, "coroutine function"),
        (_yielding, "yields its outputs: emit them with ctx.emit"),
    ],
)
def test_what_is_no_agent_is_refused(agent: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        RunAgent(agent, config())


class _Callable:
    async def __call__(self, ctx: Any, event: Any) -> Any:
        return event


async def _of_three(prefix: str, ctx: Any, event: Any) -> Any:
    return prefix + event


@pytest.mark.parametrize("agent", [_Callable(), functools.partial(_of_three, "a")])
def test_callable_objects_and_partials_are_agents(agent: Any) -> None:
    assert RunAgent(agent, config()).default_label().startswith("RunAgent(")


def test_what_cannot_be_sent_to_workers_is_refused() -> None:
    client = (n for n in range(3))
    with pytest.raises(TypeError, match="give provider as a factory"):
        RunAgent(_agent, config(provider=lambda: client))


def test_config_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="AgentConfig, not dict"):
        RunAgent(_agent, {})  # type: ignore[arg-type]


def test_outputs_are_typed_and_their_coders_registered() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    outputs = pipeline | beam.Create([("a", 1)]) | RunAgent(_agent, config()).with_output_types(int)
    assert (outputs.main.element_type, outputs.traces.element_type) == (int, TraceEvent)
    assert isinstance(registry.get_coder(DeadLetter), DeadLetterCoder)
    coder = registry.get_coder(TraceEvent)
    event = TraceEvent(seq=3, attributes={"a": "b"})
    assert coder.decode(coder.encode(event)) == event


@pytest.mark.parametrize("event", [{"a": [1, None, "x"]}, (1, 2), {3: "int key"}, b"bytes", 2**80, float("nan")])
def test_dead_letters_travel_with_any_event(event: Any) -> None:
    coder = DeadLetterCoder()
    letter = DeadLetter(b"\xff\x00", 4, event, "ValueError", "no", calls=(), trace_events=(TraceEvent(seq=4),))
    back = coder.decode(coder.encode(letter))
    assert repr(back.event) == repr(event)
    assert (back.entity_key, back.seq, back.trace_events) == (b"\xff\x00", 4, (TraceEvent(seq=4),))
    assert coder.encode(back) == coder.encode(letter)


def test_the_tested_versions_hold_this_one() -> None:
    assert is_tested()
    assert not is_tested("2.1.0")
    assert tuple(sorted(TESTED_BEAM_MINORS)) == TESTED_BEAM_MINORS


def test_local_runs_name_their_runner() -> None:
    assert local_arguments(["--streaming"]) == ["--runner=FnApiRunner", "--streaming"]
    assert local_arguments(["--runner=PrismRunner"]) == ["--runner=PrismRunner"]
    assert local_arguments(["--runner", "PrismRunner"]) == ["--runner", "PrismRunner"]
    assert disable_state_cache()


@pytest.mark.parametrize(
    "module", ["beam_agents", "beam_agents.model", "beam_agents.activation", "beam_agents.journals"]
)
def test_importing_what_needs_no_beam_imports_no_beam(module: str) -> None:
    script = f"import sys, {module}; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60, env=ENVIRONMENT).returncode == 0


def test_the_root_names_what_it_exports() -> None:
    assert beam_agents.__all__ == sorted(beam_agents.__all__)
    assert all(getattr(beam_agents, name) for name in beam_agents.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = beam_agents.no_such_name


def test_a_config_keeps_its_identity_through_pickling() -> None:
    settings = AgentConfig("openai:m", journal="memory://x")
    assert pickle.loads(pickle.dumps(settings)).identity == settings.identity
    assert AgentConfig("openai:m", journal="memory://x") == settings
