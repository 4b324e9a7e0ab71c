"""Beam's own portable runners as servers, and worker pools."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from tests.flink.processes import Group, free_port, wait_until
from tests.runners.round import Round

__all__ = ["PRISM_VERSION", "WorkerPool", "listens", "prism", "prism_binary", "python_job_server"]

PRISM_VERSION = "2.77.0"
_BINARY = Path(__file__).parents[2] / ".parts" / f"prism-{PRISM_VERSION}" / "prism"


def prism(round_: Round) -> list[str]:
    """Start Prism; the pipeline options that reach it."""
    port = free_port()
    round_.start(f"prism-{port}", [str(prism_binary()), f"--job_port={port}", f"--web_port={free_port()}"])
    wait_until(lambda: listens(port), 20, "Prism")
    return [
        "--runner=PortableRunner",
        f"--job_endpoint=localhost:{port}",
        "--experiments=prism_disable_sdf_split",
    ]


def prism_binary() -> Path:
    """Where Prism is. Fails the test when it is nowhere."""
    binary = Path(os.environ.get("PRISM") or _BINARY)
    if not binary.exists():
        pytest.fail(f"Prism {PRISM_VERSION} is missing; `make prism` installs it (it needs Go)")
    return binary


def python_job_server(round_: Round) -> list[str]:
    """Start Beam's Python job server; the pipeline options that reach it."""
    port = free_port()
    module = "apache_beam.runners.portability.local_job_service_main"
    round_.start("job-server", [sys.executable, "-m", module, f"--port={port}"])
    wait_until(lambda: listens(port), 40, "the job server")
    return ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}"]


class WorkerPool:
    """Beam's EXTERNAL worker pool: it starts each worker as a process of its own."""

    def __init__(self, round_: Round) -> None:
        self._port = free_port()
        module = "apache_beam.runners.worker.worker_pool_main"
        self._group: Group = round_.start(
            f"pool-{self._port}", [sys.executable, "-m", module, f"--service_port={self._port}"]
        )
        wait_until(lambda: listens(self._port), 40, "the worker pool")

    @property
    def arguments(self) -> list[str]:
        """The pipeline options that name this pool."""
        return ["--environment_type=EXTERNAL", f"--environment_config=localhost:{self._port}"]

    def workers(self) -> list[int]:
        """Process ids of the workers that run now."""
        return self._group.running("SdkHarness")


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
