"""One pipeline on every runner, through each transform: outputs, windows, times, dead letters, and the account."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.runners.account import Account
from tests.runners.promises import kept, paid_once, undisturbed
from tests.runners.round import Round, RunFailed
from tests.runners.servers import WorkerPool, prism
from tests.runners.shape import Shape, shape_for
from tests.runners.transforms import TRANSFORMS
from tests.runners.ways import WAYS

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(os.name != "posix", reason="processes end by group"),
    pytest.mark.parametrize("transform", TRANSFORMS),
]

Begin = Callable[[Shape], Round]
Settle = Callable[[Round], Account]


@pytest.mark.parametrize("way", WAYS)
def test_run(transform: str, way: str, begin: Begin, settle: Settle) -> None:
    round_ = begin(shape_for(transform))
    round_.run(WAYS[way](round_))
    undisturbed(round_.shape, settle(round_))


@pytest.mark.parametrize("way", ["FnApiRunner, in process", "Prism"])
def test_run_again(transform: str, way: str, begin: Begin, settle: Settle) -> None:
    """The second run takes every answer from the journal."""
    round_ = begin(shape_for(transform, refuses=False))
    round_.run(WAYS[way](round_))
    asked = round_.account().requests
    round_.run(WAYS[way](round_))
    account = settle(round_)
    kept(round_.shape, account)
    assert account.requests == asked
    assert account.replayed == round_.shape.answers


def test_streaming(transform: str, begin: Begin, settle: Settle) -> None:
    round_ = begin(shape_for(transform, events=4, paced=True, step_ms=40, window_s=3, latency_ms=(200, 400)))
    round_.run([*WAYS["Prism"](round_), "--streaming"])
    account = settle(round_)
    undisturbed(round_.shape, account)
    assert account.open_bundles > 1


@pytest.mark.parametrize("way", ["BundleBasedDirectRunner"])
def test_failing_bundle_retried(transform: str, way: str, begin: Begin, settle: Settle) -> None:
    round_ = begin(shape_for(transform, refuses=False, fails_once=True))
    round_.run(WAYS[way](round_))
    paid_once(round_.shape, settle(round_))


@pytest.mark.parametrize("way", ["FnApiRunner, in process", "Prism"])
def test_failing_bundle_and_run_again(transform: str, way: str, begin: Begin, settle: Settle) -> None:
    round_ = begin(shape_for(transform, refuses=False, fails_once=True))
    with pytest.raises(RunFailed) as failure:
        round_.run(WAYS[way](round_))
    assert "the last event fails once" in failure.value.log
    round_.run(WAYS[way](round_))
    paid_once(round_.shape, settle(round_))


@pytest.mark.parametrize("way", ["Prism, worker pool"])
def test_worker_killed_and_run_again(transform: str, way: str, begin: Begin, settle: Settle) -> None:
    round_ = begin(shape_for(transform, keys=60, max_in_flight=16, latency_ms=(100, 300)))
    pool = WorkerPool(round_)
    run = round_.begin([*prism(round_), *pool.arguments])
    round_.await_calls(0.4)
    round_.kill(pool.workers())
    with pytest.raises(RunFailed):
        round_.await_end(run)
    round_.run(WAYS[way](round_))
    paid_once(round_.shape, settle(round_))
