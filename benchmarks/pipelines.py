"""Whole pipelines whose calls wait: how close to bare asyncio, and how other ways in Beam compare."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference

from beam_agents.values import LlmRequest
from benchmarks.memory import held_rows
from benchmarks.processes import environment, python
from benchmarks.rows import Found, Row, difference, in_turn, ratio, value
from benchmarks.timing import noting_cpu, run_loop
from benchmarks.work import (
    EmptyStateful,
    WaitingClient,
    agent_pipeline,
    bare,
    config_for,
    decode,
    pairs_of,
    run_counted,
)

__all__ = ["measured"]


def measured(quick: bool) -> Found:
    """200 keys of 100 ms, then 2,000 and 20,000 of a second, then memory."""
    agent_pipeline(pairs_of(2), config_for())
    if quick:
        rows = [*_small(4, 0.01, 1), *_capped(30, 0.01, 10, 1), _memory(200, 10, 0.1, ("ours",)), *held_rows(20)]
    else:
        rows = [*_small(200, 0.1, 5), *_capped(2_000, 1.0, 4_000, 3), *_capped(20_000, 1.0, 4_000, 3)]
        rows += [_memory(8_000, 2_000, 3.0, ("ours", "bare")), *held_rows(2_000)]
    return Found(tuple(rows))


def _small(keys: int, delay_s: float, rounds: int) -> list[Row]:
    pairs = pairs_of(keys)
    texts = [text for _, text in pairs]
    found = in_turn(
        rounds,
        {
            "bare": lambda: bare(texts, delay_s, keys),
            "ours": lambda: agent_pipeline(pairs, config_for(delay_s)),
            "empty": lambda: run_counted(lambda elements: elements | beam.ParDo(EmptyStateful()), pairs),
            "batches": lambda: _run_inference(texts, _Gathered(delay_s)),
        },
    )
    name = f"{keys} keys × 1 call of {delay_s * 1000:.0f} ms, whole pipeline"
    rows = [
        difference(name, "s", found["ours"], found["bare"], "bare asyncio", 0.2),
        _beside(name, found["ours"], found["empty"], "an empty stateful pipeline, no calls"),
        _beside(name, found["ours"], found["batches"], "RunInference, each batch gathered in asyncio"),
    ]
    return rows + _one_after_another(pairs[: keys // 4], delay_s)


def _one_after_another(pairs: Sequence[tuple[str, str]], delay_s: float) -> list[Row]:
    """Fewer keys and one run: these ways take as long as all their calls together."""
    texts = [text for _, text in pairs]
    ours = agent_pipeline(pairs, config_for(delay_s))
    peers: dict[str, Callable[[], float]] = {
        "plain Map, one after another": lambda: run_counted(lambda all_: all_ | beam.Map(_asked(delay_s)), texts),
        "RunInference, batches of 1": lambda: _run_inference(texts, _OneByOne(delay_s)),
    }
    name = f"{len(pairs)} keys × 1 call of {delay_s * 1000:.0f} ms, whole pipeline"
    return [_beside(name, [ours], [measure()], against) for against, measure in peers.items()]


def _capped(keys: int, delay_s: float, cap: int, rounds: int) -> list[Row]:
    """The run beside bare asyncio, and the CPU of one of its keys, which no wait can hide where a wave ends at once."""
    pairs = pairs_of(keys)
    texts = [text for _, text in pairs]
    cpu: dict[str, list[float]] = {"bare": [], "ours": []}
    ways = {
        "bare": lambda: bare(texts, delay_s, cap),
        "ours": lambda: agent_pipeline(pairs, config_for(delay_s, max_in_flight=cap)),
    }
    found = in_turn(rounds, {way: noting_cpu(cpu[way], run) for way, run in ways.items()})
    name = f"{keys:,} keys × {delay_s:g} s, max_in_flight {cap:,}"
    spent = {way: [seconds / keys * 1e6 for seconds in cpu[way]] for way in ways}
    return [
        ratio(name, "s", found["ours"], found["bare"], "bare asyncio with the same cap", 1.3),
        ratio(f"{name}: CPU of one key", "µs", spent["ours"], spent["bare"], "bare asyncio with the same cap"),
    ]


def _beside(name: str, ours: Sequence[float], peer: Sequence[float], against: str) -> Row:
    return ratio(name, "s", ours, peer, against)


class _asked:  # noqa: N801 - used as a function
    """The call of the waiting client, made and waited for in place."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def __call__(self, text: str) -> Any:
        time.sleep(self._delay_s)
        return decode(_answer_at_once(text))


def _answer_at_once(text: str) -> bytes:
    """The waiting client's bytes without a loop."""
    coroutine = WaitingClient().complete(LlmRequest("m-1", [{"role": "user", "content": text}]))
    try:
        coroutine.send(None)
    except StopIteration as ended:
        answer: bytes = ended.value.response
        return answer
    raise RuntimeError("the client without a delay waited")


class _OneByOne(ModelHandler):  # type: ignore[misc]
    """RunInference that asks for one element after another."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(max_batch_size=1)
        self._delay_s = delay_s

    def load_model(self) -> Any:
        return _asked(self._delay_s)

    def run_inference(self, batch: Sequence[str], model: Any, inference_args: Any = None) -> Iterable[Any]:
        return [model(text) for text in batch]


class _Gathered(ModelHandler):  # type: ignore[misc]
    """RunInference, default batch sizes, that asks for the elements of a batch at once."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self._delay_s = delay_s

    def load_model(self) -> Any:
        return WaitingClient(self._delay_s)

    def run_inference(self, batch: Sequence[str], model: Any, inference_args: Any = None) -> Iterable[Any]:
        async def everything() -> list[Any]:
            requests = (LlmRequest("m-1", [{"role": "user", "content": text}]) for text in batch)
            return await asyncio.gather(*map(model.complete, requests))

        return [decode(answer.response) for answer in run_loop(everything())]


def _run_inference(texts: Sequence[str], handler: Any) -> float:
    return run_counted(lambda elements: elements | RunInference(handler), texts)


def _memory(many: int, few: int, delay_s: float, ways: Sequence[str]) -> Row:
    """Peak memory of fresh processes with all keys in flight at once, by the difference of two sizes."""
    kb = {way: (_peak_kb(way, many, delay_s) - _peak_kb(way, few, delay_s)) / (many - few) for way in ways}
    note = f"peak of a process with {many:,} keys in flight less that with {few:,}"
    note += "".join(f"; {way} asyncio: {each:.1f} KB" for way, each in kb.items() if way != "ours")
    return value("memory a key in flight, whole pipeline", "KB", kb["ours"], 12.0, note=note)


def _ours_waiting(keys: int, delay_s: float) -> float:
    return agent_pipeline(pairs_of(keys), config_for(delay_s, max_in_flight=keys))


def _bare_waiting(keys: int, delay_s: float) -> float:
    return bare([text for _, text in pairs_of(keys)], delay_s, keys)


WAYS = {"ours": _ours_waiting, "bare": _bare_waiting}


def _peak_kb(way: str, keys: int, delay_s: float) -> int:
    command = python("-m", "benchmarks.pipelines", way, str(keys), str(delay_s))
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout)


def _print_peak(way: str, keys: str, delay_s: str) -> None:
    """Entry of the fresh process: run, then print its highest resident memory in KB."""
    WAYS[way](int(keys), float(delay_s))
    with open("/proc/self/status", encoding="ascii") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))


if __name__ == "__main__":
    _print_peak(*sys.argv[1:])
