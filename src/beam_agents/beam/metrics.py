"""Beam's metrics. They must be recorded on the thread of a bundle: elsewhere they are silently lost."""

from __future__ import annotations

from typing import Final

from apache_beam.metrics import Metrics

from beam_agents.activation.metrics import BREAKER_OPENS, Measures
from beam_agents.activation.resources import Resources

__all__ = ["METRICS_NAMESPACE", "record"]

METRICS_NAMESPACE: Final = "beam_agents"
_THROTTLED: Final = "cumulativeThrottlingSeconds"


def record(measures: Measures, resources: Resources) -> None:
    """Add `measures` to Beam's metrics, and what happened to the endpoints since this was last called.

    The time that requests were held back goes under the name by which runners find it when they decide about
    more workers.
    """
    counts = measures.counts
    counts[_THROTTLED] += resources.take_throttled_s()
    counts[BREAKER_OPENS] += resources.take_breaker_opens()
    for name, count in counts.items():
        if count:
            Metrics.counter(METRICS_NAMESPACE, name).inc(count)
    for name, values in measures.values.items():
        distribution = Metrics.distribution(METRICS_NAMESPACE, name)
        for value in values:
            distribution.update(value)
