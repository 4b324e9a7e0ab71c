"""Agents by nothing but Beam's documented interface: batches of buckets of keys.

Keys are hashed into buckets, a bucket's events are collected by `GroupByKey`, in streaming by `GroupIntoBatches`,
and the activations of a batch run at once inside one `process`. The cells of a bucket's keys are one value in the
bucket's state.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.coders import Coder
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
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

_STREAMING_BUFFER_S = 1
_VERSION = 1
_LENGTH = struct.Struct(">I")


def run_in_buckets(keyed: Any, agent: Agent, config: AgentConfig, namespace: str, event_type: Any) -> Any:
    """The three outputs of `agent` over `keyed`, as a tuple of tagged collections.

    Differs from the faster way in this: outputs leave when their whole batch is done, batches of one bucket run
    one after another, an output may be late for a window downstream because its event waited in a batch, and
    the state of a bucket is read and written as a whole.
    """
    bucketed = typehints.Tuple[int, typehints.Tuple[bytes, event_type, int]]
    return (
        keyed
        | "Bucket" >> beam.ParDo(_ToBucket()).with_output_types(bucketed)
        | "Batch" >> _grouping(keyed.pipeline, config.max_in_flight)
        | "Run"
        >> beam.ParDo(_BucketDoFn(agent, config, namespace, keyed.windowing.windowfn.get_window_coder())).with_outputs(
            TRACES, ERRORS, main="main"
        )
    )


def _grouping(pipeline: Any, batch_size: int) -> beam.PTransform:
    """What collects a bucket's events. Prism loses the batches of a window that `GroupIntoBatches` ends by a timer."""
    if pipeline.options.view_as(StandardOptions).streaming:
        return beam.GroupIntoBatches(batch_size, _STREAMING_BUFFER_S)
    return beam.GroupByKey()


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


class _BucketDoFn(beam.DoFn):  # type: ignore[misc]
    def __init__(self, agent: Agent, config: AgentConfig, namespace: str, window_coder: Coder) -> None:
        self._agent = agent
        self._config = config
        self._scopes = Scopes(namespace, window_coder)

    def process(
        self,
        element: tuple[int, Iterable[tuple[bytes, Any, int]]],
        cells: Any = _CELLS,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        _, batch = element
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
        cells.write({**stored, **{key: lane.cell for key, lane in bundle.lanes.items()}})
        emission.record(bundle.resources)

    def _open_lane(self, bundle: Bundle, key: bytes, window: Any, stored: Mapping[bytes, CellValue]) -> Lane:
        lane = bundle.lanes[key] = Lane(key, self._scopes.of(window), window, None, stored.get(key, CellValue()))
        return lane
