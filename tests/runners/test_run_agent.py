"""What `RunAgent` alone has: many keys, Beam's documented interface, a journal on a server, commits by timers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.audit import redis_attempts
from tests.journals.servers import RedisServer
from tests.runners.account import Account
from tests.runners.promises import paid_once, undisturbed
from tests.runners.round import Round, RunFailed
from tests.runners.servers import WorkerPool, prism
from tests.runners.shape import Shape
from tests.runners.ways import WAYS

pytestmark = [pytest.mark.services, pytest.mark.skipif(os.name != "posix", reason="processes end by group")]

Begin = Callable[[Shape], Round]
Settle = Callable[[Round], Account]

TIMED = Shape(keys=8, events=20, calls=1, paced=True, step_ms=40, window_s=1, timed=True)


def test_many_keys(begin: Begin, settle: Settle) -> None:
    round_ = begin(Shape(keys=2_000, window_s=2_000, max_in_flight=256, latency_ms=(100, 100), limit_s=180))
    round_.run(WAYS["Prism"](round_))
    undisturbed(round_.shape, settle(round_))


def test_redis_journal(tmp_path: Path, begin: Begin, settle: Settle) -> None:
    redis = RedisServer(tmp_path)
    redis.start()
    redis.client.config_set("appendfsync", "everysec")
    try:
        round_ = begin(Shape())
        round_.journal, round_.kept = redis.uri, lambda: redis_attempts(redis.client)
        round_.run(WAYS["Prism"](round_))
        undisturbed(round_.shape, settle(round_))
    finally:
        redis.stop()


@pytest.mark.parametrize("way", ["FnApiRunner, in process", "Prism"])
def test_documented_interface(way: str, begin: Begin, settle: Settle) -> None:
    round_ = begin(Shape())
    round_.run(WAYS[way](round_), official_api=True)
    undisturbed(round_.shape, settle(round_))


def test_documented_interface_streaming(begin: Begin, settle: Settle) -> None:
    """Windows end while events wait for their batch, and their state is still there."""
    round_ = begin(Shape(events=4, paced=True, step_ms=40, window_s=2, latency_ms=(50, 100)))
    round_.run([*WAYS["Prism"](round_), "--streaming"], official_api=True)
    undisturbed(round_.shape, settle(round_))


def test_committed_by_timers(begin: Begin, settle: Settle) -> None:
    """Several events of each key wait at once, their times are out of order, and none may be late downstream."""
    round_ = begin(replace(TIMED, disorder_ms=2_000, latency_ms=(200, 600)))
    round_.run([*WAYS["Prism"](round_), "--streaming"])
    undisturbed(round_.shape, settle(round_))


def test_failing_timer_and_run_again(begin: Begin, settle: Settle) -> None:
    round_ = begin(replace(TIMED, refuses=False, fails_once=True))
    with pytest.raises(RunFailed) as failure:
        round_.run([*WAYS["Prism"](round_), "--streaming"])
    assert "the last event fails once" in failure.value.log
    round_.run([*WAYS["Prism"](round_), "--streaming"])
    paid_once(round_.shape, settle(round_))


def test_worker_with_timers_killed_and_run_again(begin: Begin, settle: Settle) -> None:
    """Prism may hang when the worker of a stream is gone, so this round's limit is short."""
    round_ = begin(replace(TIMED, max_in_flight=16, limit_s=45))
    pool = WorkerPool(round_)
    run = round_.begin([*prism(round_), *pool.arguments, "--streaming"])
    round_.await_calls(0.4)
    round_.kill(pool.workers())
    with pytest.raises(RunFailed):
        round_.await_end(run)
    round_.run([*WAYS["Prism, worker pool"](round_), "--streaming"])
    paid_once(round_.shape, settle(round_))
