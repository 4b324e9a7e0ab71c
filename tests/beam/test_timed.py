"""Agents whose activations are committed by timers, on a stand-in of a runner that keeps them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from random import Random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from beam_agents.activation import AgentConfig
from beam_agents.activation.durable import MOST_UNPROVEN
from beam_agents.beam import ClaimLostError, RunAgent
from beam_agents.beam.timed import TimedAgentDoFn
from tests.beam import scripted
from tests.beam.conftest import config
from tests.beam.timer_engine import Engine

NO_SPLIT = "--experiments=prism_disable_sdf_split"


class Gates(dict[Any, "Future[None]"]):
    """Made when first asked for, by whichever thread comes first; a `defaultdict` can make two."""

    def __missing__(self, name: Any) -> Future[None]:
        return self.setdefault(name, Future())


gates = Gates()


@pytest.fixture(autouse=True)
def _closed_gates() -> Iterator[None]:
    gates.clear()
    yield
    for gate in gates.values():
        if not gate.done():
            gate.set_result(None)


def timed(**fields: Any) -> AgentConfig:
    return config(commit="timer", **fields)


def engine_for(agent: Any, **fields: Any) -> Engine:
    scripted.answer_all()
    return Engine(TimedAgentDoFn(agent, timed(**fields), "t"))


async def counting(ctx: Any, event: Any) -> Any:
    await ctx.complete(f"about {event}")
    ctx.state = (ctx.state or 0) + 1
    return event, ctx.seq, ctx.state


async def gated(ctx: Any, event: Any) -> Any:
    await asyncio.wrap_future(gates[event])
    return event, ctx.seq


def test_outputs_come_in_order_for_each_key_at_the_times_of_their_events() -> None:
    engine = engine_for(counting)
    engine.elements((b"a", 1, 30), (b"a", 2, 10), (b"b", 3, 20))
    engine.elements((b"a", 4, 20))
    engine.settle()
    placed = [(one.value, one.at) for one in engine.emitted if one.tag == "main"]
    assert [one for one in placed if one[0][0] != 3] == [((1, 0, 1), 30), ((2, 1, 2), 10), ((4, 2, 3), 20)]
    assert ((3, 0, 1), 20) in placed
    assert sum(one.tag == "traces" for one in engine.emitted) == 8
    assert engine.holds() == []


def test_a_slow_call_holds_back_nothing_but_its_own_key() -> None:
    engine = engine_for(gated)
    gates["quick"].set_result(None)
    engine.elements((b"a", "slow", 1), (b"b", "quick", 2))
    engine.until(lambda: engine.look() or bool(engine.emitted))
    assert engine.main() == [("quick", 0)]
    assert engine.holds() == [1]
    gates["slow"].set_result(None)
    engine.settle()
    assert engine.main() == [("quick", 0), ("slow", 0)]


def test_no_output_is_late_whatever_the_order_of_times_and_ends() -> None:
    """Events are on time when they come; their ends are not in order; nothing downstream would be dropped."""
    random, engine = Random(7), engine_for(gated)
    waiting: list[Any] = []
    for n in range(300):
        engine.input_watermark = max(engine.input_watermark, Timestamp(n - 20))
        engine.elements((b"k%d" % random.randrange(8), n, n - random.randrange(20)))
        waiting.append(n)
        for _ in range(random.randrange(3)):
            if waiting:
                gates[waiting.pop(random.randrange(len(waiting)))].set_result(None)
        engine.look()
    for n in waiting:
        gates[n].set_result(None)
    engine.settle()
    assert sorted(event for event, _ in engine.main()) == list(range(300))
    assert not any(one.late for one in engine.emitted)
    assert float(engine.output_watermark) == 299 - 20


def test_the_watermark_waits_for_every_event_and_not_for_longer() -> None:
    engine = engine_for(gated)
    engine.input_watermark = Timestamp(5)
    engine.elements((b"a", 1, 7), (b"a", 2, 6), (b"b", 3, 9))
    engine.input_watermark = Timestamp(100)
    gates[1].set_result(None)
    engine.until(lambda: engine.look() or bool(engine.emitted))
    assert float(engine.output_watermark) == 6
    gates[2].set_result(None)
    gates[3].set_result(None)
    engine.settle()
    engine.look()
    assert float(engine.output_watermark) == 100


def test_a_bundle_that_fails_is_run_again_and_pays_nothing_twice() -> None:
    engine = engine_for(counting, journal="memory://timed")
    engine.elements((b"a", 1, 1), (b"a", 2, 2), fail=True)
    engine.elements((b"a", 1, 1), (b"a", 2, 2))
    engine.until(lambda: scripted.llm.call_count == 2)
    for _ in range(3):
        engine.look(fail=True)
    engine.settle()
    assert engine.main() == [(1, 0, 1), (2, 1, 2)]
    assert scripted.llm.call_count == 2


def test_a_bundle_that_fails_after_its_commits_pays_nothing_twice_even_without_a_journal() -> None:
    engine = engine_for(counting)
    engine.elements((b"a", 1, 1), (b"a", 2, 2))
    engine.until(lambda: engine.look(fail=True) == [(1, 0, 1), (2, 1, 2)])
    engine.elements((b"a", 3, 3), fail=True)
    engine.elements((b"a", 3, 3))
    engine.settle()
    assert engine.main() == [(1, 0, 1), (2, 1, 2), (3, 2, 3)]
    assert scripted.llm.call_count == 3


def test_commits_are_not_kept_of_more_keys_than_it_needs() -> None:
    engine = engine_for(counting)
    count = MOST_UNPROVEN + 20
    engine.elements(*[(b"k%d" % n, n, n) for n in range(count)])
    engine.settle()
    engine.elements()  # holds that were released fire between bundles
    assert len(engine.main()) == count
    assert not any(engine.dofn._events().needs_proof(b"k%d" % n) for n in range(count))


def test_another_process_goes_on_from_the_state() -> None:
    engine = engine_for(counting, journal="memory://timed")
    engine.elements((b"a", 1, 1), (b"a", 2, 2))
    engine.until(lambda: scripted.llm.call_count == 2)
    other = TimedAgentDoFn(counting, replace(engine.dofn._config), "t")
    again = Engine(other, dict(engine.cells), dict(engine.timers))
    again.settle()
    assert again.main() == [(1, 0, 1), (2, 1, 2)]
    assert scripted.llm.call_count == 2


def test_a_failed_activation_is_a_dead_letter_and_the_next_event_goes_on() -> None:
    async def failing(ctx: Any, event: Any) -> Any:
        await ctx.complete(str(event))
        if event == "bad":
            raise ValueError("on purpose")
        return event, ctx.seq

    engine = engine_for(failing)
    engine.elements((b"a", "bad", 1), (b"a", "good", 2))
    engine.settle()
    (letter,) = [one for one in engine.emitted if one.tag == "errors"]
    assert (letter.value.error_type, letter.value.seq, letter.value.event, letter.at) == ("ValueError", 0, "bad", 1)
    assert engine.main() == [("good", 1)]
    assert engine.holds() == []


def test_an_activation_that_is_not_through_at_its_deadline_is_a_dead_letter() -> None:
    engine = engine_for(gated, activation_timeout_s=0.05)
    engine.elements((b"a", "never", 1))
    engine.settle()
    assert [one.value.error_type for one in engine.emitted] == ["ActivationTimeout"]


def test_on_error_raise_fails_the_bundle_with_key_and_cause() -> None:
    async def failing(ctx: Any, event: Any) -> None:
        raise ValueError("on purpose")

    engine = engine_for(failing, on_error="raise")
    with pytest.raises(RuntimeError, match=r"key b'a' seq 0 failed with ValueError: on purpose"):  # noqa: PT012
        engine.elements((b"a", 1, 1))
        engine.settle()


def test_a_key_in_two_bundles_at_once_fails_the_earlier() -> None:
    engine = engine_for(gated)
    other = TimedAgentDoFn(gated, engine.dofn._config, "t")
    other._step_id = engine.dofn._step_id
    engine.left_open((b"a", 1, 1))
    Engine(other).elements((b"a", 2, 2))
    with pytest.raises(ClaimLostError, match="prism_disable_sdf_split"):
        engine.dofn.finish_bundle()


def test_threads_that_bring_events_are_held_back_while_too_much_is_under_way() -> None:
    engine = engine_for(gated, max_in_flight=2)
    bringing = threading.Thread(target=engine.elements, args=[(b"k%d" % n, n, n) for n in range(9)])
    bringing.start()
    engine.until(lambda: len(gates) == 2)
    assert bringing.is_alive()  # four keys are in, two of them at work
    for n in range(9):
        gates[n].set_result(None)
    bringing.join(20)
    assert not bringing.is_alive()
    engine.settle()
    assert sorted(engine.main()) == [(n, 0) for n in range(9)]


def test_events_may_give_their_own_positions() -> None:
    engine = engine_for(counting, sequence=lambda event: event * 10)
    engine.elements((b"a", 1, 1), (b"a", 2, 2), (b"a", 2, 2))
    engine.settle()
    assert engine.main() == [(1, 10, 1), (2, 20, 2), (2, 20, 3)]
    assert engine.holds() == []


class Prism(PipelineRunner):
    """Stands for a runner that is named so."""


@pytest.mark.parametrize(
    ("runner", "options", "said"),
    [
        ("FnApiRunner", [], "FnApiRunner fires them at once"),
        ("BundleBasedDirectRunner", [], "loses them in silence"),
        ("PortableRunner", [], "Python job server.*prism_disable_sdf_split"),
    ],
)
def test_runners_that_do_not_keep_real_time_timers_are_refused(runner: str, options: list[str], said: str) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions([f"--runner={runner}", *options]))
    with pytest.raises(ValueError, match=said):
        _ = pipeline | beam.Create([("a", 1)]) | RunAgent(counting, timed())


def test_another_runner_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="was not run on Prism; it is experimental"):
        _ = beam.Pipeline(runner=Prism()) | beam.Create([("a", 1)]) | RunAgent(counting, timed())


def test_windows_and_a_time_to_live_are_refused() -> None:
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=PortableRunner", NO_SPLIT]))
    pairs = pipeline | beam.Create([("a", 1)])
    with pytest.raises(ValueError, match="global window"):
        _ = pairs | beam.WindowInto(FixedWindows(1)) | RunAgent(counting, timed())
    with pytest.raises(ValueError, match="state_ttl_s is not available"):
        _ = pairs | "with a time" >> RunAgent(counting, timed(state_ttl_s=5.0))
    assert (pairs | "fit" >> RunAgent(counting, timed())).main is not None
