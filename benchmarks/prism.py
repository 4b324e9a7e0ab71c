"""Beam's AsyncWrapper and `RunAgent` on Prism: the wrapper needs a runner that keeps real-time timers.

Prism is one program, made with `go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0`; it is taken from
the PATH, or from where the environment variable PRISM says.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.async_dofn import AsyncWrapper

from beam_agents import RunAgent
from beam_agents.beam.runners import PRISM_ARGUMENTS
from beam_agents.values import LlmRequest
from benchmarks.rows import Found, in_turn, ratio
from benchmarks.work import WaitingClient, ask, config_for, decode, pairs_of, run_counted

__all__ = ["measured", "prism_running"]

_READY_S = 20


def measured(quick: bool) -> Found:
    """Both over the same keys, with all calls at once."""
    program = shutil.which(os.environ.get("PRISM") or "prism")
    if program is None:
        return Found(left_out=("Beam's AsyncWrapper: it needs Prism, and no program prism was found",))
    keys, delay_s, rounds = (4, 0.01, 1) if quick else (200, 0.1, 3)
    pairs = pairs_of(keys)
    with prism_running(program) as arguments:
        options = PipelineOptions(arguments)
        _agents(pairs, 0.0, options)
        found = in_turn(
            rounds,
            {"ours": lambda: _agents(pairs, delay_s, options), "wrapper": lambda: _wrapper(pairs, delay_s, options)},
        )
    name = f"{keys} keys × 1 call of {delay_s * 1000:.0f} ms, whole pipeline on Prism"
    peer = "Beam's AsyncWrapper, asyncio, as many at once, committing every 0.1 s"
    return Found((ratio(name, "s", found["ours"], found["wrapper"], peer),))


class _AsyncAsk(beam.DoFn):  # type: ignore[misc]
    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    async def process(self, element: tuple[str, str]) -> Any:
        request = LlmRequest("m-1", [{"role": "user", "content": element[1]}])
        return [decode((await WaitingClient(self._delay_s).complete(request)).response).text]


def _agents(pairs: Sequence[tuple[str, str]], delay_s: float, options: PipelineOptions) -> float:
    transform = RunAgent(ask, config_for(delay_s))
    return run_counted(lambda elements: (elements | "Agent" >> transform).main, pairs, options)


def _wrapper(pairs: Sequence[tuple[str, str]], delay_s: float, options: PipelineOptions) -> float:
    wrapped = AsyncWrapper(
        _AsyncAsk(delay_s), parallelism=len(pairs), callback_frequency=0.1, use_asyncio=True, timeout=10
    )
    return run_counted(lambda elements: elements | beam.ParDo(wrapped), pairs, options)


@contextmanager
def prism_running(program: str) -> Iterator[list[str]]:
    """Pipeline arguments for a Prism that ends with the block."""
    job_port, web_port = _free_port(), _free_port()
    command = (program, f"--job_port={job_port}", f"--web_port={web_port}")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await_port(job_port)
        yield [*PRISM_ARGUMENTS, f"--job_endpoint=localhost:{job_port}"]
    finally:
        process.terminate()
        process.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_port(port: int) -> None:
    until = monotonic() + _READY_S
    while monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            sleep(0.1)
        else:
            return
    raise RuntimeError(f"Prism did not listen within {_READY_S} s")
