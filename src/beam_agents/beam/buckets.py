"""Agents by nothing but Beam's documented interface: batches of buckets of keys.

Keys are hashed into buckets, a bucket's events are collected in its state, and the activations of a batch run at
once inside one call. The cells of a bucket's keys are one value in the bucket's state.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.coders import Coder, FastPrimitivesCoder, VarIntCoder
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from beam_agents.activation.agent import Agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.resources import resources_for
from beam_agents.beam.bundle import Bundle, Lane, Pending
from beam_agents.beam.emission import ERRORS, TRACES, Emission, Scopes
from beam_agents.beam.state import AgentCellCoder, CellValue

__all__ = ["BUCKETS", "BucketCellsCoder", "run_in_buckets"]

BUCKETS = 8
"""How many buckets the keys of a step are hashed into: the most bundles that can be at work at once."""

_STREAMING_BUFFER_MS = 1_000
_VERSION = 1
_LENGTH = struct.Struct(">I")


def run_in_buckets(keyed: Any, agent: Agent, config: AgentConfig, namespace: str, event_type: Any) -> Any:
    """The three outputs of `agent` over `keyed`, as a tuple of tagged collections.

    Differs from the faster way in this: outputs leave when their whole batch is done, batches of one bucket run
    one after another, an output may be late for a window downstream because its event waited in a batch, and
    the state of a bucket is read and written as a whole.
    """
    bucketed = typehints.Tuple[int, typehints.Tuple[bytes, event_type, int]]
    streaming = keyed.pipeline.options.view_as(StandardOptions).streaming
    scopes = Scopes(namespace, keyed.windowing.windowfn.get_window_coder())
    dofn = _BucketDoFn(agent, config, scopes, streaming=streaming)
    return (
        keyed
        | "Bucket" >> beam.ParDo(_ToBucket()).with_output_types(bucketed)
        | "Run" >> beam.ParDo(dofn).with_outputs(TRACES, ERRORS, main="main")
    )


class BucketCellsCoder(Coder):  # type: ignore[misc]
    """The cells of a bucket's keys: a version byte, then each key and cell after its length, sorted by key."""

    _cells = AgentCellCoder()

    def encode(self, value: Mapping[bytes, CellValue]) -> bytes:
        parts = [bytes([_VERSION])]
        for key, cell in sorted(value.items()):
            for part in (key, self._cells.encode(cell)):
                parts += (_LENGTH.pack(len(part)), part)
        return b"".join(parts)

    def decode(self, encoded: bytes) -> dict[bytes, CellValue]:
        """Raises `ValueError` for another version or for bytes that are cut."""
        if encoded[:1] != bytes([_VERSION]):
            raise ValueError(f"the cells of a bucket have version {encoded[:1].hex()}, this version reads {_VERSION}")
        parts = list(_framed(encoded[1:]))
        if len(parts) % 2:
            raise ValueError("the cells of a bucket end with a key that has no cell")
        return {key: self._cells.decode(cell) for key, cell in zip(parts[::2], parts[1::2], strict=True)}

    def is_deterministic(self) -> bool:
        return True

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


def _framed(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise ValueError("the cells of a bucket are cut")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise ValueError("the cells of a bucket are cut")
        yield data[at : at + length]
        at += length


class _ToBucket(beam.DoFn):  # type: ignore[misc]
    def process(self, pair: tuple[bytes, Any], timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        key, event = pair
        yield int.from_bytes(sha256(key).digest()[:8], "big") % BUCKETS, (key, event, timestamp.micros)


_CELLS = beam.DoFn.StateParam(ReadModifyWriteStateSpec("cells", BucketCellsCoder()))
_WAITING = beam.DoFn.StateParam(BagStateSpec("waiting", FastPrimitivesCoder()))
_COUNT = beam.DoFn.StateParam(CombiningValueStateSpec("count", VarIntCoder(), CountCombineFn()))
_END_SPEC = TimerSpec("end", TimeDomain.WATERMARK)
_END = beam.DoFn.TimerParam(_END_SPEC)
_SOON_SPEC = TimerSpec("soon", TimeDomain.REAL_TIME)
_SOON = beam.DoFn.TimerParam(_SOON_SPEC)


class _BucketDoFn(beam.DoFn):  # type: ignore[misc]
    """Collects a bucket's events, and runs them when they are a batch, or at the end of their window.

    The timer of the end is within the window: a runner may forget the window's state once the watermark is past it.
    """

    def __init__(self, agent: Agent, config: AgentConfig, scopes: Scopes, *, streaming: bool) -> None:
        self._agent = agent
        self._config = config
        self._scopes = scopes
        self._streaming = streaming

    def process(
        self,
        element: tuple[int, tuple[bytes, Any, int]],
        waiting: Any = _WAITING,
        count: Any = _COUNT,
        cells: Any = _CELLS,
        end: Any = _END,
        soon: Any = _SOON,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        waiting.add(element[1])
        count.add(element)
        waits = count.read()
        if waits >= self._config.max_in_flight:
            yield from self.run_batch(waiting, count, cells, window)
        elif waits == 1:
            end.set(window.max_timestamp())
            if self._streaming:
                now_ms = resources_for(self._config).now_ms()
                soon.set(Timestamp(micros=(now_ms + _STREAMING_BUFFER_MS) * 1_000))

    @on_timer(_END_SPEC)  # type: ignore[untyped-decorator]
    @on_timer(_SOON_SPEC)  # type: ignore[untyped-decorator]
    def run_batch(
        self, waiting: Any = _WAITING, count: Any = _COUNT, cells: Any = _CELLS, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Any]:
        """Run what waits. Called by Beam at the end of the window, too, and a while after a batch began."""
        batch = list(waiting.read())
        if not batch:
            return
        stored: dict[bytes, CellValue] = cells.read() or {}
        bundle = Bundle(self._agent, resources_for(self._config))
        emission = Emission()
        try:
            for key, event, micros in batch:
                lane = bundle.lanes.get(key) or self._open_lane(bundle, key, window, stored)
                for finished in bundle.until_admitted():
                    yield from emission.of(finished)
                bundle.submit(lane, Pending(event, Timestamp(micros=micros), PANE_INFO_UNKNOWN))
            for finished in bundle.remaining():
                yield from emission.of(finished)
        finally:
            bundle.abandon()
            self._scopes.forget()
        waiting.clear()
        count.clear()
        cells.write({**stored, **{key: lane.cell for key, lane in bundle.lanes.items()}})
        emission.record(bundle.resources)

    def _open_lane(self, bundle: Bundle, key: bytes, window: Any, stored: Mapping[bytes, CellValue]) -> Lane:
        lane = bundle.lanes[key] = Lane(key, self._scopes.of(window), window, None, stored.get(key, CellValue()))
        return lane
