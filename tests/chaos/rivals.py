"""The same workload as others do it today: Beam's RunInference, and a loop with tenacity around the request.

Both start again from the beginning when they are killed, as both keep nothing outside the bundle. What they account
for is what their outputs hold: the usage of the answers that got through.
"""

from __future__ import annotations

import json
import logging
import os
import time
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import KeyedModelHandler, RemoteModelHandler, RunInference
from apache_beam.utils import retry

from beam_agents import local_options
from tests.chaos.worker import Spec
from tests.chaos.workload import Event, messages

__all__ = ["run_inference", "run_tenacity"]

_AT_ONCE = 24
_BATCH = 24
_WAITS_SHORTENED = 100

Chain = dict[str, Any]
"""An event, what it heard so far, and the tokens that its answers say they cost."""


class _Handler(RemoteModelHandler[Chain, Chain, ThreadPoolExecutor]):  # type: ignore[misc]
    """One batch, its requests at once. Its retries are Beam's: the whole batch again."""

    def __init__(self, url: str, question: int) -> None:
        super().__init__(namespace="chaos", num_retries=8)
        self._url = url
        self._question = question

    def create_client(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_AT_ONCE)

    def batch_elements_kwargs(self) -> dict[str, int]:
        return {"min_batch_size": _BATCH, "max_batch_size": _BATCH}

    def request(self, batch: Sequence[Chain], model: ThreadPoolExecutor, inference_args: Any = None) -> Iterable[Chain]:
        return list(model.map(partial(_answered, self._url, self._question), batch))


def run_inference(spec: Spec) -> None:
    """A chain of `RunInference`, one for each question."""
    _quiet()
    retry.Clock.sleep = lambda _, s: time.sleep(s / _WAITS_SHORTENED)  # type: ignore[method-assign]
    with beam.Pipeline(options=local_options(spec.runner)) as pipeline:
        chains = pipeline | beam.Create([_begun(event) for event in spec.events])
        for question in range(5):
            handler = KeyedModelHandler(_Handler(spec.url, question))
            answered = chains | f"Ask{question}" >> RunInference(handler)
            chains = answered | f"Take{question}" >> beam.Map(lambda pair: (pair[0], pair[1]))
        _keep(chains | beam.Values(), spec)


def run_tenacity(spec: Spec) -> None:
    """Batches of events, their chains at once, each request in a retry loop."""
    _quiet()
    with beam.Pipeline(options=local_options(spec.runner)) as pipeline:
        chains = pipeline | beam.Create([_begun(event) for event in spec.events]) | beam.Values()
        batches = chains | beam.BatchElements(min_batch_size=_BATCH, max_batch_size=_BATCH)
        _keep(batches | beam.FlatMap(partial(_all_asked, spec.url)), spec)


def _all_asked(url: str, batch: list[Chain]) -> list[Chain]:
    import tenacity

    patient = tenacity.retry(stop=tenacity.stop_after_attempt(6), wait=tenacity.wait_random(0, 0.05), reraise=True)

    def asked(chain: Chain) -> Chain:
        for question in range(chain["event"]["calls"]):
            chain = patient(_answered)(url, question, chain)
        return chain

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(asked, batch))


def _begun(event: Event) -> tuple[str, Chain]:
    return f"{event['key']}/{event['index']}", {"event": event, "heard": [], "tokens": 0}


def _answered(url: str, question: int, chain: Chain) -> Chain:
    event, heard = chain["event"], chain["heard"]
    if question >= event["calls"]:
        return chain
    body = json.dumps({"model": "chaos-1", "messages": messages(event, question, heard, "", "")}).encode()
    name = f"{event['key']}/{event['index']}/{question}"
    headers = {"Content-Type": "application/json", "Idempotency-Key": name}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body, headers), timeout=20) as got:
        answer = json.load(got)
    tokens = chain["tokens"] + answer["usage"]["total_tokens"]
    return {"event": event, "heard": [*heard, answer["choices"][0]["message"]["content"]], "tokens": tokens}


def _keep(chains: Any, spec: Spec) -> None:
    out = Path(spec.directory) / f"rival-{os.getpid()}.jsonl"
    whole = chains | "Line" >> beam.Map(lambda chain: (None, json.dumps(chain))) | beam.GroupByKey()
    _ = whole | "Keep" >> beam.Map(lambda group: _keep_whole(out, group[1]))


def _keep_whole(out: Path, lines: Iterable[str]) -> None:
    unborn = out.with_suffix(".new")
    unborn.write_text("".join(line + "\n" for line in lines))
    unborn.rename(out)


def _quiet() -> None:
    logging.getLogger().setLevel(logging.CRITICAL + 1)
