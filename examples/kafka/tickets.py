"""Tickets from one Kafka topic, sorted by an agent, into another: Python alone, without Beam's Java expansion service.

Needs `pip install beam-agents confluent-kafka`, a broker, and a runner for unbounded sources, such as Prism:

    python examples/kafka/tickets.py localhost:9092 tickets sorted openai:gpt-4o-mini \
        --runner=PortableRunner --job_endpoint=localhost:8073 --environment_type=LOOPBACK \
        --experiments=prism_disable_sdf_split --streaming

The runner keeps the offsets of what was read. Where it cannot go on from them, start again from the first message:
what was answered is in the journal, and costs nothing.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_agents import AgentConfig, RunAgent

IDLE_S = 0.5


class FromOffset(RestrictionProvider):
    """All messages of a partition, from the first one."""

    def initial_restriction(self, partition: tuple[str, int]) -> OffsetRange:
        return OffsetRange(0, 2**63 - 1)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, partition: tuple[str, int], restriction: OffsetRange) -> int:
        return 1

    def truncate(self, partition: tuple[str, int], restriction: OffsetRange) -> None:
        """A pipeline that drains reads nothing more."""


FROM_OFFSET = beam.DoFn.RestrictionParam(FromOffset())
WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class Read(beam.DoFn):
    """`(topic, partition)` → `(key, value)` of its messages, at their times; the watermark is the latest of these."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    @beam.DoFn.unbounded_per_element()
    def process(self, partition: tuple[str, int], tracker: Any = FROM_OFFSET, watermark: Any = WATERMARK) -> Any:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "tickets", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(*partition, tracker.current_restriction().start)])
            while (message := consumer.poll(IDLE_S)) is not None:
                if message.error() is not None:
                    raise RuntimeError(f"Kafka: {message.error()}")
                if not tracker.try_claim(message.offset()):
                    return
                time_s = message.timestamp()[1] / 1_000
                yield TimestampedValue((message.key(), json.loads(message.value())), time_s)
                watermark.set_watermark(max(Timestamp(time_s), watermark.current_watermark() or Timestamp(time_s)))
            tracker.defer_remainder(Duration(seconds=IDLE_S))
        finally:
            consumer.close()


class Write(beam.DoFn):
    """Sends `(key, value)`; a bundle ends when the broker has acknowledged all of its messages."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self._producer: Any = None

    def process(self, pair: tuple[bytes, Any]) -> None:
        from confluent_kafka import Producer

        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self._servers, "acks": "all"})
        key, value = pair
        self._producer.produce(self._topic, key=key, value=json.dumps(value))

    def finish_bundle(self) -> None:
        if self._producer is not None and self._producer.flush(30):
            raise RuntimeError("the broker has not acknowledged every message within 30 s")


async def sort(ctx: Any, ticket: dict[str, Any]) -> Any:
    answer = await ctx.complete(f"One word for the subject of this ticket: {ticket['text']}", temperature=0)
    ctx.state = (ctx.state or 0) + 1
    return ctx.entity_key, {"id": ticket["id"], "subject": answer.text, "tickets_of_this_customer": ctx.state}


def main() -> None:
    servers, topic_in, topic_out, model, *options = sys.argv[1:]
    config = AgentConfig(model, journal="sqlite:///tickets.db", namespace="tickets", commit="timer")
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        tickets = (
            pipeline
            | beam.Create([(topic_in, 0)])
            | "Read" >> beam.ParDo(Read(servers)).with_output_types(tuple[bytes, dict[str, Any]])
        )
        results = tickets | RunAgent(sort, config)
        _ = results.main | "Write" >> beam.ParDo(Write(servers, topic_out))
        letters = results.errors | beam.Map(lambda letter: (letter.entity_key, letter.to_json()))
        _ = letters | "Write errors" >> beam.ParDo(Write(servers, f"{topic_out}-errors"))


if __name__ == "__main__":
    main()
