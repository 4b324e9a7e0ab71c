"""A worker: runs the events of one round through RunAgent, batch after batch, until all are done or it is killed.

As a program: `python -m tests.chaos.worker SPEC.json`; by `run(spec)` in a process that is there already.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam

from beam_agents import AgentConfig, RunAgent, local_options
from beam_agents.activation.loop import ActivationLoop, close_activation_loop
from beam_agents.beam import disable_state_cache
from beam_agents.exporters.jsonl import event_to_json
from beam_agents.model import RetryPolicy
from beam_agents.providers import OpenAIClient
from tests.chaos.workload import Event, append, chain, step_log

__all__ = ["Spec", "run"]


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker is to do.

    Attributes:
        url: the endpoint.
        journal: URI, or `None`.
        directory: where everything of the round lies.
        events: what to process.
        batches: pipelines that they are divided among, one after another.
        eager: write each element at once (a sink that may see one twice), or whole batches once committed.
        runner: arguments for Beam.
        on_error: as in `AgentConfig`.
        agent_fails: whether agents fail once where their event says so.
        by_event: take the position from the event.
        sink_fails: the sink fails once in each batch: inside the agents' bundle when eager, after its commit if not.
        clock_back_ms: the clock jumps back by this, a second after the start, and again at each start.
        max_in_flight: activations at once.
    """

    url: str
    journal: str | None
    directory: str
    events: tuple[Event, ...]
    namespace: str = "chaos"
    batches: int = 3
    eager: bool = False
    runner: tuple[str, ...] = ("--runner=FnApiRunner",)
    on_error: str = "dead_letter"
    agent_fails: bool = False
    by_event: bool = False
    sink_fails: bool = False
    clock_back_ms: int = 0
    max_in_flight: int = 24

    def save(self, path: Path) -> Path:
        """Write it for `load`."""
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def load(cls, path: Path) -> Spec:
        """Read what `save` wrote."""
        told = json.loads(path.read_text())
        return cls(**{**told, "events": tuple(told["events"]), "runner": tuple(told["runner"])})


def run(spec: Spec) -> None:
    """Process every batch that is not done. Raises what a pipeline raises."""
    _keep_log(Path(spec.directory))
    if spec.clock_back_ms:
        ActivationLoop.now_ms = staticmethod(_clock_going_back(spec.clock_back_ms))  # type: ignore[method-assign]
    disable_state_cache()
    for batch in range(spec.batches):
        done = _done(spec, batch)
        while not done.exists():
            try:
                _run_batch(spec, batch)
            except Exception as error:
                if "the sink fails once" not in str(error):
                    raise
                continue
            done.touch()
    close_activation_loop()


def _done(spec: Spec, batch: int) -> Path:
    return Path(spec.directory) / f"batch-{batch}.done"


def _run_batch(spec: Spec, batch: int) -> None:
    keys = sorted({event["key"] for event in spec.events})
    mine = set(keys[batch :: spec.batches])
    pairs = [(event["key"], event) for event in spec.events if event["key"] in mine]
    directory = Path(spec.directory)
    out = directory / f"out-{batch}-{os.getpid()}-{time.monotonic_ns()}.jsonl"
    agent = partial(chain, log=step_log(directory), fails=spec.agent_fails)
    with beam.Pipeline(options=local_options(spec.runner)) as pipeline:
        outputs = pipeline | beam.Create(pairs) | RunAgent(agent, _config(spec))
        lines = (
            outputs.main | "Main" >> beam.Map(_main_line),
            outputs.traces | "Traces" >> beam.Map(_trace_line),
            outputs.errors | "Errors" >> beam.Map(_error_line),
        )
        failing = directory / f"sink-failed-{batch}" if spec.sink_fails else None
        if spec.eager:
            for name, one in zip(("KeepMain", "KeepTraces", "KeepErrors"), lines, strict=True):
                _ = one | name >> beam.Map(lambda line: _keep_line(out, line, failing))
        else:
            whole = lines | beam.Flatten() | beam.Map(lambda line: (None, line)) | beam.GroupByKey()
            _ = whole | "Keep" >> beam.Map(lambda group: _keep_whole(out, group[1], failing, _done(spec, batch)))


def _config(spec: Spec) -> AgentConfig:
    return AgentConfig(
        provider=partial(OpenAIClient, base_url=spec.url, idempotency_key=True, timeout_s=20.0, model_id="chaos-1"),
        decode=OpenAIClient.decode,
        journal=spec.journal,
        namespace=spec.namespace,
        max_in_flight=spec.max_in_flight,
        retry_policy=RetryPolicy(6, 5, 50),
        breaker_threshold=10_000,
        activation_timeout_s=60.0,
        on_error=spec.on_error,  # type: ignore[arg-type]
        sequence=_index if spec.by_event else None,
    )


def _index(event: Event) -> int:
    return int(event["index"])


def _main_line(value: Any) -> str:
    return json.dumps({"main": value})


def _trace_line(event: Any) -> str:
    return json.dumps({"trace": event_to_json(event)})


def _error_line(letter: Any) -> str:
    return json.dumps({"error": letter.to_json()})


def _keep_line(out: Path, line: str, failing: Path | None) -> None:
    """Inside the agents' own bundle: when this fails, nothing of that is committed."""
    _fail_once(failing)
    append(out, line + "\n")


def _keep_whole(out: Path, lines: Iterable[str], failing: Path | None, done: Path) -> None:
    """After the agents' bundle was committed. A worker killed while its pipeline winds up leaves its batch done."""
    _fail_once(failing)
    unborn = out.with_suffix(".new")
    unborn.write_text("".join(line + "\n" for line in lines))
    unborn.rename(out)
    done.touch()


def _fail_once(marker: Path | None) -> None:
    if marker is not None and not marker.exists():
        marker.touch()
        raise RuntimeError("the sink fails once")


def _clock_going_back(ms: int) -> Any:
    started = time.monotonic()

    def now_ms() -> int:
        return int(time.time() * 1000) - (ms if time.monotonic() - started > 1 else 0)

    return now_ms


def _keep_log(directory: Path) -> None:
    handler = logging.FileHandler(directory / "worker.log")
    handler.setFormatter(logging.Formatter("%(process)d %(name)s %(levelname)s %(message)s"))
    logger = logging.getLogger("beam_agents")
    logger.handlers = [handler]
    logger.propagate = False
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)


def logged(directory: Path) -> Iterator[str]:
    """The lines that workers logged."""
    path = directory / "worker.log"
    yield from path.read_text().splitlines() if path.exists() else ()


if __name__ == "__main__":
    run(Spec.load(Path(sys.argv[1])))
