"""One pipeline of agents on every runner: outputs, order, windows, times, dead letters, and the account."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.audit import redis_attempts
from tests.journals.servers import RedisServer
from tests.runners.account import ANSWERED, Account
from tests.runners.round import Round, RunFailed
from tests.runners.servers import WorkerPool, prism, python_job_server
from tests.runners.shape import Shape

pytestmark = [pytest.mark.services, pytest.mark.skipif(os.name != "posix", reason="processes end by group")]

Begin = Callable[[Shape], Round]
Settle = Callable[[Round], Account]

LOOPBACK = "--environment_type=LOOPBACK"

LOCAL = {
    "in process": ["--runner=FnApiRunner"],
    "multi threading": ["--runner=FnApiRunner", "--direct_running_mode=multi_threading", "--direct_num_workers=2"],
    "multi processing": ["--runner=FnApiRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=2"],
    "bundle based": ["--runner=BundleBasedDirectRunner"],
}


def _kept_its_promises(shape: Shape, account: Account) -> None:
    """What must hold on every runner, whatever happened."""
    assert account.outputs + account.dead_letters == shape.total
    assert account.exact
    assert account.seq_gapless
    assert account.wrong_places == 0
    assert account.drift == 0
    assert account.dropped == 0
    assert sum(account.classes.get(spend, 0) for spend in ANSWERED) == shape.total * shape.calls


def undisturbed(shape: Shape, account: Account) -> None:
    _kept_its_promises(shape, account)
    assert account.repeats == 0
    assert account.classes.get("recovered", 0) == 0


@pytest.mark.parametrize("way", LOCAL)
def test_local(way: str, begin: Begin, settle: Settle) -> None:
    shape = Shape()
    round_ = begin(shape)
    round_.run(LOCAL[way])
    undisturbed(shape, settle(round_))


def test_documented_interface(begin: Begin, settle: Settle) -> None:
    shape = Shape()
    round_ = begin(shape)
    round_.run(LOCAL["in process"], official_api=True)
    undisturbed(shape, settle(round_))


def test_python_job_server(begin: Begin, settle: Settle) -> None:
    shape = Shape()
    round_ = begin(shape)
    round_.run([*python_job_server(round_), LOOPBACK])
    undisturbed(shape, settle(round_))


def test_prism_loopback(begin: Begin, settle: Settle) -> None:
    shape = Shape()
    round_ = begin(shape)
    round_.run([*prism(round_), LOOPBACK])
    undisturbed(shape, settle(round_))


def test_prism_many_keys(begin: Begin, settle: Settle) -> None:
    shape = Shape(keys=2_000, window_s=2_000, max_in_flight=256, latency_ms=(100, 100), limit_s=180)
    round_ = begin(shape)
    round_.run([*prism(round_), LOOPBACK])
    undisturbed(shape, settle(round_))


def test_prism_redis_journal(tmp_path: Path, begin: Begin, settle: Settle) -> None:
    redis = RedisServer(tmp_path)
    redis.start()
    try:
        shape = Shape()
        round_ = begin(shape)
        round_.journal, round_.kept = redis.uri, lambda: redis_attempts(redis.client)
        round_.run([*prism(round_), LOOPBACK])
        undisturbed(shape, settle(round_))
    finally:
        redis.stop()


def test_prism_documented_interface(begin: Begin, settle: Settle) -> None:
    shape = Shape()
    round_ = begin(shape)
    round_.run([*prism(round_), LOOPBACK], official_api=True)
    undisturbed(shape, settle(round_))


def test_prism_worker_pool(begin: Begin, settle: Settle) -> None:
    shape = Shape()
    round_ = begin(shape)
    pool = WorkerPool(round_)
    round_.run([*prism(round_), *pool.arguments])
    undisturbed(shape, settle(round_))


def test_prism_streaming(begin: Begin, settle: Settle) -> None:
    shape = Shape(events=6, paced=True, step_ms=40, window_s=5, latency_ms=(200, 400))
    round_ = begin(shape)
    round_.run([*prism(round_), LOOPBACK, "--streaming"])
    account = settle(round_)
    undisturbed(shape, account)
    assert account.open_bundles > 1


def test_prism_streaming_documented_interface(begin: Begin, settle: Settle) -> None:
    shape = Shape(events=6, paced=True, step_ms=40, window_s=5, latency_ms=(200, 400))
    round_ = begin(shape)
    round_.run([*prism(round_), LOOPBACK, "--streaming"], official_api=True)
    undisturbed(shape, settle(round_))


TIMED = Shape(keys=8, events=20, calls=1, paced=True, step_ms=40, window_s=1, timed=True)


def test_prism_committed_by_timers(begin: Begin, settle: Settle) -> None:
    """Several events of each key wait at once, their times are out of order, and none may be late downstream."""
    shape = replace(TIMED, disorder_ms=2_000, latency_ms=(200, 600))
    round_ = begin(shape)
    round_.run([*prism(round_), LOOPBACK, "--streaming"])
    undisturbed(shape, settle(round_))


def test_a_failing_bundle_is_retried_by_the_bundle_based_runner(begin: Begin, settle: Settle) -> None:
    shape = Shape(refuses=False, fails_once=True)
    round_ = begin(shape)
    round_.run(LOCAL["bundle based"])
    _paid_once_over_a_failure(shape, settle(round_))


@pytest.mark.parametrize("way", ["in process", "multi processing"])
def test_a_failing_bundle_fails_the_job_and_is_run_again(way: str, begin: Begin, settle: Settle) -> None:
    shape = Shape(refuses=False, fails_once=True)
    round_ = begin(shape)
    with pytest.raises(RunFailed) as failure:
        round_.run(LOCAL[way])
    assert "the last event fails once" in failure.value.log
    round_.run(LOCAL[way])
    _paid_once_over_a_failure(shape, settle(round_))


def test_prism_failing_bundle_run_again(begin: Begin, settle: Settle) -> None:
    shape = Shape(refuses=False, fails_once=True)
    round_ = begin(shape)
    with pytest.raises(RunFailed) as failure:
        round_.run([*prism(round_), LOOPBACK])
    assert "the last event fails once" in failure.value.log
    round_.run([*prism(round_), LOOPBACK])
    _paid_once_over_a_failure(shape, settle(round_))


def _paid_once_over_a_failure(shape: Shape, account: Account) -> None:
    _kept_its_promises(shape, account)
    assert account.classes["recovered"] > 0
    assert account.repeats <= shape.max_in_flight


def test_prism_failing_timer_run_again(begin: Begin, settle: Settle) -> None:
    shape = replace(TIMED, refuses=False, fails_once=True)
    round_ = begin(shape)
    with pytest.raises(RunFailed) as failure:
        round_.run([*prism(round_), LOOPBACK, "--streaming"])
    assert "the last event fails once" in failure.value.log
    round_.run([*prism(round_), LOOPBACK, "--streaming"])
    _paid_once_over_a_failure(shape, settle(round_))


@pytest.mark.parametrize(
    ("shape", "options"),
    [(Shape(keys=60, max_in_flight=16), []), (replace(TIMED, max_in_flight=16), ["--streaming"])],
    ids=["bundles", "timers"],
)
def test_prism_worker_killed_and_run_again(shape: Shape, options: list[str], begin: Begin, settle: Settle) -> None:
    round_ = begin(shape)
    pool = WorkerPool(round_)
    run = round_.begin([*prism(round_), *pool.arguments, *options])
    round_.await_calls(0.4)
    round_.kill(pool.workers())
    with pytest.raises(RunFailed):
        round_.await_end(run)
    again = WorkerPool(round_)
    round_.run([*prism(round_), *again.arguments, *options])
    account = settle(round_)
    _kept_its_promises(shape, account)
    assert account.classes["recovered"] > 0
    assert account.repeats <= shape.max_in_flight
    assert account.unexplained == 0
