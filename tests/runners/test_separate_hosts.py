"""Client, runner and workers on hosts of their own, and a journal that only a network reaches."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.chaos.audit import redis_attempts
from tests.flink.processes import free_port, wait_until
from tests.journals.servers import RedisServer
from tests.runners.account import Account
from tests.runners.hosts import hosts
from tests.runners.promises import undisturbed
from tests.runners.round import Round
from tests.runners.servers import listens, prism_binary
from tests.runners.shape import Shape

pytestmark = pytest.mark.services


def test_separate_hosts(tmp_path: Path, begin: Callable[[Shape], Round], settle: Callable[[Round], Account]) -> None:
    """Prism names itself `localhost` to its workers, so their host passes that port on to Prism's."""
    shape, redis, job, pool = Shape(), RedisServer(tmp_path), free_port(), free_port()
    round_ = begin(shape)
    redis.start()
    redis.client.config_set("appendfsync", "everysec")
    try:
        with hosts() as found:
            endpoint = urlsplit(round_.url).port or 0
            for port in (endpoint, redis.port):
                found.forward(round_, "here", port, to="127.0.0.1")
            found.forward(round_, "workers", job, to=found.address("runner"))
            round_.url = f"http://{found.here}:{endpoint}"
            round_.journal, round_.kept = f"redis://{found.here}:{redis.port}/0", lambda: redis_attempts(redis.client)
            server = [str(prism_binary()), f"--job_port={job}", f"--web_port={free_port()}"]
            round_.start("prism", [*found.at("runner"), *server])
            program = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={pool}"]
            round_.start("pool", [*found.at("workers"), *program])
            for host, port in (("runner", job), ("workers", pool)):
                wait_until(partial(listens, port, found.address(host)), 40, f"the host of the {host}")
            runner = f"{found.address('runner')}:{job}"
            options = ["--runner=PortableRunner", f"--job_endpoint={runner}", f"--artifact_endpoint={runner}"]
            options += ["--environment_type=EXTERNAL", f"--environment_config={found.address('workers')}:{pool}"]
            round_.run([*options, "--experiments=prism_disable_sdf_split"], at=found.at("client"))
            undisturbed(shape, settle(round_))
    finally:
        redis.stop()
