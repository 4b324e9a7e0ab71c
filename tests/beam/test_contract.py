"""The facts of Beam's Python worker that running activations at once stands on, one test each.

Run these against a new version of Beam before adding it to `TESTED_BEAM_MINORS`.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import FixedWindows, GlobalWindow, TimestampedValue
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

from tests.beam import scripted
from tests.beam.conftest import options

CELL = beam.DoFn.StateParam(ReadModifyWriteStateSpec("cell", VarIntCoder()))


def _run(runner: str, dofn: beam.DoFn, pairs: list[Any], windows: Any = None) -> None:
    pipeline = beam.Pipeline(options=options(runner))
    keyed = pipeline | beam.Create(pairs).with_output_types(tuple[str, int])
    if windows is not None:
        keyed = keyed | beam.Map(lambda pair: TimestampedValue(pair, pair[1])).with_output_types(tuple[str, int])
        keyed = keyed | beam.WindowInto(windows)
    keyed | beam.ParDo(dofn)
    pipeline.run().wait_until_finish()


class _WritesAtTheEnd(beam.DoFn):
    """Counts each key's elements; writes only in `finish_bundle`, through the handles it kept."""

    def start_bundle(self) -> None:
        self.handles: dict[str, Any] = {}
        self.counts: dict[str, int] = {}

    def process(self, pair: Any, cell: Any = CELL) -> Any:
        key, _ = pair
        if key not in self.handles:
            self.handles[key] = cell
            self.counts[key] = cell.read() or 0
        scripted.keep("seen", (key, self.counts[key]))
        self.counts[key] += 1
        return ()

    def finish_bundle(self) -> None:
        for key, handle in self.handles.items():
            handle.write(self.counts[key])
            scripted.keep("written", (key, self.counts[key]))


def test_what_is_written_through_a_captured_handle_in_finish_bundle_is_committed(runner: str) -> None:
    pipeline = beam.Pipeline(options=options(runner))
    stepped = pipeline | beam.Create([("a", 1), ("a", 2), ("b", 3)]).with_output_types(tuple[str, int])
    stepped | beam.ParDo(_WritesAtTheEnd())
    pipeline.run().wait_until_finish()
    last = {}
    for key, count in scripted.kept["written"]:
        last[key] = count
    assert last == {"a": 2, "b": 1}
    assert sorted(scripted.kept["seen"]) == [("a", 0), ("a", 1), ("b", 0)]


class _CountsHandles(beam.DoFn):
    def process(self, pair: Any, cell: Any = CELL, window: Any = beam.DoFn.WindowParam) -> Any:
        scripted.keep("handles", (pair[0], str(window), cell))
        return ()


def test_a_key_and_window_has_one_handle_in_a_bundle() -> None:
    _run("FnApiRunner", _CountsHandles(), [("a", 1), ("a", 2), ("b", 3), ("a", 11)], FixedWindows(10))
    handles: dict[Any, set[int]] = {}
    for key, window, handle in scripted.kept["handles"]:
        handles.setdefault((key, window), set()).add(id(handle))
    assert len(handles) == 3
    assert all(len(found) == 1 for found in handles.values())


def test_user_state_is_committed_after_finish_bundle() -> None:
    worker = importlib.import_module("apache_beam.runners.worker.bundle_processor")

    class Bag(worker.SynchronousBagRuntimeState):
        def commit(self) -> None:
            scripted.keep("commits", list(self._added_elements))
            super().commit()

    original = worker.SynchronousBagRuntimeState
    worker.SynchronousBagRuntimeState = Bag
    try:
        _run("FnApiRunner", _AtEnd(), [("a", 1)])
    finally:
        worker.SynchronousBagRuntimeState = original
    assert scripted.kept["order"] == [0]
    assert scripted.kept["commits"] == [[1]]


class _AtEnd(beam.DoFn):
    def process(self, pair: Any, cell: Any = CELL) -> Any:
        self.cell = cell
        return ()

    def finish_bundle(self) -> None:
        scripted.keep("order", len(scripted.kept["commits"]))
        self.cell.write(1)


class _FailsAtTheEnd(_WritesAtTheEnd):
    def finish_bundle(self) -> None:
        super().finish_bundle()
        if scripted.once("failed"):
            raise RuntimeError("after the writes")


def test_what_a_failed_bundle_wrote_is_not_committed() -> None:
    _run("BundleBasedDirectRunner", _FailsAtTheEnd(), [("a", 1), ("a", 2)])
    assert scripted.marks["failed"] > 1
    assert {count for _, count in scripted.kept["written"]} <= {1, 2}
    assert [seen for _, seen in scripted.kept["seen"]].count(0) == 2


class _EmitsLater(beam.DoFn):
    """Emits each element at the next one, or at the end, as a windowed value, to main and a tag."""

    def start_bundle(self) -> None:
        self.held: list[Any] = []

    def process(self, pair: Any, window: Any = beam.DoFn.WindowParam, at: Any = beam.DoFn.TimestampParam) -> Any:
        yield from self._out()
        self.held.append((pair, at, window))

    def finish_bundle(self) -> Any:
        yield from self._out()

    def _out(self) -> Any:
        for pair, at, window in self.held:
            yield WindowedValue(pair, at, (window,))
            yield TaggedOutput("tag", WindowedValue(pair, at, (window,)))
        self.held.clear()


def _placed(pair: Any, name: str, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam) -> None:
    scripted.keep(name, (pair[1], float(at), float(window.start)))


def test_windowed_values_keep_their_own_time_and_window_from_process_and_finish(runner: str) -> None:
    pipeline = beam.Pipeline(options=options(runner))
    outputs = (
        pipeline
        | beam.Create([("a", 3), ("a", 14), ("a", 25)])
        | beam.Map(lambda pair: TimestampedValue(pair, pair[1]))
        | beam.WindowInto(FixedWindows(10))
        | beam.ParDo(_EmitsLater()).with_outputs("tag", main="main")
    )
    outputs.main | "main" >> beam.Map(_placed, "main")
    outputs.tag | "tag" >> beam.Map(_placed, "tag")
    pipeline.run().wait_until_finish()
    expected = [(3, 3, 0), (14, 14, 10), (25, 25, 20)]
    assert sorted(scripted.kept["main"]) == sorted(scripted.kept["tag"]) == expected


class _Threads(beam.DoFn):
    def start_bundle(self) -> None:
        self.thread = threading.get_ident()

    def process(self, pair: Any, cell: Any = CELL) -> Any:
        scripted.keep("same thread", threading.get_ident() == self.thread)
        return ()

    def finish_bundle(self) -> None:
        scripted.keep("same thread", threading.get_ident() == self.thread)


def test_a_bundle_stays_on_one_thread(runner: str) -> None:
    _run(runner, _Threads(), [("a", 1), ("b", 2), ("a", 3)])
    assert len(scripted.kept["same thread"]) >= 4
    assert all(scripted.kept["same thread"])


def test_the_state_cache_has_its_switch() -> None:
    module = importlib.import_module("apache_beam.runners.portability.fn_api_runner.worker_handlers")
    assert isinstance(module.STATE_CACHE_SIZE_MB, int)


def test_the_current_transform_tells_its_full_label() -> None:
    class Labelled(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            scripted.keep("label", pcoll.pipeline._current_transform().full_label)
            return pcoll

    class Outer(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            return pcoll | "inner" >> Labelled()

    beam.Pipeline(runner="FnApiRunner") | beam.Create([1]) | "outer" >> Outer()
    assert scripted.kept["label"] == ["outer/inner"]


@pytest.mark.parametrize("value", [WindowedValue(1, 0, (GlobalWindow(),), PaneInfo(True, True, 0, 0, 0))])
def test_windowed_values_carry_their_pane(value: WindowedValue) -> None:
    assert value.pane_info.is_first
