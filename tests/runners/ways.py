"""Every runner that could be had here, and how its workers run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.runners.round import Round
from tests.runners.servers import WorkerPool, prism, python_job_server

__all__ = ["WAYS", "Way"]

Way = Callable[[Round], list[str]]

_LOOPBACK = "--environment_type=LOOPBACK"


def _local(*options: str) -> Way:
    return lambda _: list(options)


def _fn_api_in(mode: str) -> Way:
    return _local("--runner=FnApiRunner", f"--direct_running_mode={mode}", "--direct_num_workers=2")


WAYS: Mapping[str, Way] = {
    "FnApiRunner, in process": _local("--runner=FnApiRunner"),
    "FnApiRunner, threads": _fn_api_in("multi_threading"),
    "FnApiRunner, processes": _fn_api_in("multi_processing"),
    "BundleBasedDirectRunner": _local("--runner=BundleBasedDirectRunner"),
    "Python job server": lambda round_: [*python_job_server(round_), _LOOPBACK],
    "Prism": lambda round_: [*prism(round_), _LOOPBACK],
    "Prism, worker pool": lambda round_: [*prism(round_), *WorkerPool(round_).arguments],
}
"""Each starts what the round needs, and gives the pipeline options that reach it."""
