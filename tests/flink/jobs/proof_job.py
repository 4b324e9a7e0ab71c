"""The job of the proof: numbers in at a steady rate, one model call and one state change each, files out."""

from __future__ import annotations

import argparse
import json

from pyflink.common import Configuration, Encoder, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
from pyflink.table import StreamTableEnvironment

from beam_agents.activation import AgentConfig
from beam_agents.activation.completion import element_key
from beam_agents.exporters.jsonl import entity_key_from_json, event_to_json
from beam_agents.flink import complete, run_agent
from beam_agents.model import RetryPolicy
from beam_agents.proto import TraceEvent

EPOCH_MS = 1_700_000_000_000


async def ask(ctx, event):
    """One call; the key's state counts the answered events."""
    result = await ctx.complete(f"event {event['n']}", temperature=0)
    ctx.state = (ctx.state or 0) + 1
    return {"n": event["n"], "seq": ctx.seq, "count": ctx.state, "key": ctx.entity_key.decode(), "text": result.text}


def answered(text, result):
    """What `complete` puts out: the only event of a key of its own."""
    return {"n": json.loads(text)["n"], "seq": 0, "count": 1, "key": name_of(element_key(text)), "text": result.text}


class EventTime(TimestampAssigner):
    """Events are 40 ms apart in their own time."""

    def extract_timestamp(self, value, record_timestamp):
        return EPOCH_MS + json.loads(value)["n"] * 40


class Stamp(ProcessFunction):
    """Adds the output's event time, and whether it came behind the watermark."""

    def process_element(self, value, ctx):
        told = json.loads(value)
        told["time"] = ctx.timestamp()
        told["late"] = ctx.timestamp() <= ctx.timer_service().current_watermark()
        yield json.dumps(told)


def trace_line(data):
    event = TraceEvent.FromString(data)
    return json.dumps({**event_to_json(event), "entity_key": name_of(event.entity_key)})


def error_line(text):
    letter = json.loads(text)
    return json.dumps({**letter, "entity_key": name_of(entity_key_from_json(letter["entity_key"]))})


def name_of(key):
    """Keys of `run_agent` as text, those of `complete`, which are digests, as hex."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key.hex()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--journal")
    parser.add_argument("--out", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--max-in-flight", type=int, default=256)
    parser.add_argument(
        "--keys-from", choices=("stream", "call"), default="stream", help="a keyed stream, or `key_by=`"
    )
    parser.add_argument("--complete", action="store_true", help="without keys and state")
    given = parser.parse_args()

    settings = Configuration()
    settings.set_string("parallelism.default", str(given.parallelism))
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_max_parallelism(128)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector'='datagen', 'fields.n.kind'='sequence', 'fields.n.start'='0',"
        f" 'fields.n.end'='{given.events - 1}', 'rows-per-second'='{given.rate}')"
    )
    keys = given.keys
    events = tables.to_data_stream(tables.from_path("numbers")).map(
        lambda row: json.dumps({"n": row[0]}), output_type=Types.STRING()
    )
    timed = events.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    )
    config = AgentConfig(
        "openai:proof",
        base_url=given.endpoint,
        api_key_env="PROOF_KEY",
        journal=given.journal,
        namespace="proof",
        activation_timeout_s=given.timeout,
        max_in_flight=given.max_in_flight,
        retry_policy=RetryPolicy(8, 100, 2_000),
        breaker_threshold=12,
        breaker_cooldown_ms=2_000,
    )

    def key_of(text):
        return f"k{json.loads(text)['n'] % keys}"

    async def agent(ctx, text):
        return await ask(ctx, json.loads(text))

    if given.complete:
        streams = complete(timed, lambda text: f"event {json.loads(text)['n']}", config, to_output=answered)
    elif given.keys_from == "call":
        streams = run_agent(timed, agent, config, key_by=key_of)
    else:
        streams = run_agent(timed.key_by(key_of, key_type=Types.STRING()), agent, config)
    for name, stream in (
        ("main", streams.main.process(Stamp(), output_type=Types.STRING())),
        ("traces", streams.traces.map(trace_line, output_type=Types.STRING())),
        ("errors", streams.errors.map(error_line, output_type=Types.STRING())),
    ):
        stream.sink_to(
            FileSink.for_row_format(f"{given.out}/{name}", Encoder.simple_string_encoder("UTF-8"))
            .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
            .with_output_file_config(
                OutputFileConfig.builder().with_part_prefix("part").with_part_suffix(".jsonl").build()
            )
            .build()
        ).name(name).uid(f"sink-{name}")
    env.execute("proof")


if __name__ == "__main__":
    main()
