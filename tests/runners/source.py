"""Numbers from an unbounded source, one each so often; the watermark trails them by their disorder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from tests.runners.shape import Shape

__all__ = ["Paced"]


class _AllNumbers(RestrictionProvider):
    def initial_restriction(self, shape: Shape) -> OffsetRange:
        return OffsetRange(0, shape.total)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, shape: Shape, restriction: OffsetRange) -> int:
        return int(restriction.size())

    def truncate(self, shape: Shape, restriction: OffsetRange) -> None:
        """Nothing comes any more when the pipeline drains."""


_TRACKER = beam.DoFn.RestrictionParam(_AllNumbers())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class Paced(beam.DoFn):
    """Gives each number of a shape when its steps have passed since the start, at its time."""

    @beam.DoFn.unbounded_per_element()
    def process(self, shape: Shape, tracker: Any = _TRACKER, watermark: Any = _WATERMARK) -> Iterator[Any]:
        n = tracker.current_restriction().start
        while n < shape.total:
            due_s = shape.start_s + n * shape.step_ms / 1_000
            left_s = due_s - time.time()
            if left_s > 0:
                tracker.defer_remainder(Duration(seconds=left_s))
                return
            if not tracker.try_claim(n):
                return
            yield TimestampedValue(n, Timestamp(micros=shape.micros_of(n)))
            watermark.set_watermark(Timestamp(due_s - shape.disorder_ms / 1_000))
            n += 1
