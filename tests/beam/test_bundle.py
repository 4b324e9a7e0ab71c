"""Bundles driven by hand: two of one key at once, bundles given up, back-pressure, a blocked loop."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest
from apache_beam.coders import BytesCoder
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from beam_agents.activation.limits import Admission
from beam_agents.activation.line import Line
from beam_agents.activation.resources import resources_for
from beam_agents.activation.staging import Scope
from beam_agents.beam.bundle import Bundle, Lane, Pending
from beam_agents.beam.claims import ClaimLostError
from beam_agents.beam.dofn import AgentDoFn
from beam_agents.beam.state import CellValue
from tests.beam.conftest import config


class Cell:
    """A state handle as a runner gives it: writes are seen once the runner commits them."""

    def __init__(self, store: dict[str, CellValue], key: str) -> None:
        self._store, self._key = store, key
        self.written: CellValue | None = None

    def read(self) -> CellValue | None:
        return self._store.get(self._key)

    def write(self, value: CellValue) -> None:
        self.written = value

    def commit(self) -> None:
        if self.written is not None:
            self._store[self._key] = self.written


async def _position(ctx: Any, event: Any) -> Any:
    ctx.state = [*(ctx.state or []), event]
    return ctx.seq


def _dofn(settings: Any = None, agent: Any = _position) -> AgentDoFn:
    dofn = AgentDoFn(agent, settings or config(), "test", BytesCoder())
    dofn.start_bundle()
    return dofn


def _process(dofn: AgentDoFn, cell: Cell, key: str, event: Any) -> list[Any]:
    return list(dofn.process((key.encode(), event), cell, GlobalWindow(), Timestamp(0), PANE_INFO_UNKNOWN))


def test_the_bundle_that_lost_its_key_fails_with_the_cause_and_the_option() -> None:
    store: dict[str, CellValue] = {}
    first = _dofn()
    second = pickle.loads(pickle.dumps(first))
    second.start_bundle()
    cells = [Cell(store, "k"), Cell(store, "k")]
    _process(first, cells[0], "k", 1)
    _process(second, cells[1], "k", 2)
    list(second.finish_bundle())
    cells[1].commit()
    with pytest.raises(ClaimLostError, match="prism_disable_sdf_split"):
        list(first.finish_bundle())
    assert cells[0].written is None
    assert store["k"] == CellValue(1, b"[2]")


def test_the_bundle_that_lost_its_key_fails_also_when_it_ends_first() -> None:
    first = _dofn()
    second = pickle.loads(pickle.dumps(first))
    second.start_bundle()
    _process(first, Cell({}, "k"), "k", 1)
    _process(second, Cell({}, "k"), "k", 2)
    with pytest.raises(ClaimLostError):
        list(first.finish_bundle())
    assert list(second.finish_bundle())


def test_a_bundle_that_was_given_up_does_not_block_its_key() -> None:
    dofn = _dofn()
    _process(dofn, Cell({}, "k"), "k", 1)
    dofn.start_bundle()
    _process(dofn, Cell({}, "k"), "k", 2)
    assert [out.value for out in dofn.finish_bundle() if hasattr(out, "windows")] == [0]


def test_two_steps_may_have_the_same_key_at_once() -> None:
    one, other = _dofn(), _dofn()
    _process(one, Cell({}, "k"), "k", 1)
    _process(other, Cell({}, "k"), "k", 2)
    assert list(one.finish_bundle())
    assert list(other.finish_bundle())


def test_state_is_written_once_at_the_end_and_no_handle_is_kept() -> None:
    dofn, cell = _dofn(), Cell({}, "k")
    for event in (1, 2, 3):
        _process(dofn, cell, "k", event)
    assert cell.written is None
    list(dofn.finish_bundle())
    assert cell.written == CellValue(3, b"[1,2,3]")
    assert dofn._bundle is None


def test_finished_activations_come_out_while_the_bundle_goes_on() -> None:
    dofn = _dofn(config(max_in_flight=1))
    early = [out for n in range(50) for out in _process(dofn, Cell({}, f"k{n}"), f"k{n}", n)]
    late = list(dofn.finish_bundle())
    assert early
    assert len(early) + len(late) == 100


def test_a_thread_is_held_back_while_too_much_is_under_way() -> None:
    admission, lines = Admission(1), [Line[int](), Line[int]()]
    for line in lines:
        admission.enter(line)
    assert not admission.wait(0)
    waiting = threading.Thread(target=admission.wait, args=(60,))
    waiting.start()
    admission.leave(lines[1])
    waiting.join(10)
    assert not waiting.is_alive()
    for _ in range(63):
        admission.enter(lines[0])
    assert not admission.wait(0)


def test_nothing_stays_open_after_a_failed_bundle() -> None:
    async def failing(ctx: Any, event: Any) -> None:
        raise ValueError(event)

    settings = config(on_error="raise", max_in_flight=2)
    dofn = _dofn(settings, failing)
    with pytest.raises(RuntimeError, match="on_error='raise'"):  # noqa: PT012 - either may raise
        for n in range(20):
            _process(dofn, Cell({}, f"k{n}"), f"k{n}", n)
        list(dofn.finish_bundle())
    dofn.start_bundle()
    resources = resources_for(settings)
    resources.loop.run(_settled(resources))
    assert (resources.slots.in_use, resources.admission.keys, resources.admission.events) == (0, 0, 0)


async def _settled(resources: Any) -> None:
    while resources.admission.keys or resources.slots.in_use:
        await resources.sleep(1)


def test_an_agent_that_blocks_the_loop_is_named() -> None:
    release = threading.Event()

    async def blocking(ctx: Any, event: Any) -> None:
        release.wait(30)

    bundle = Bundle(blocking, resources_for(config(activation_timeout_s=0.01)), stalled_margin_s=0.2)
    bundle.submit(Lane(b"k", Scope("test"), GlobalWindow(), None, CellValue()), Pending(1, None, None))
    with pytest.raises(RuntimeError, match=r"blocked the activation loop .* await"):
        bundle.take_finished(wait=True)
    release.set()
