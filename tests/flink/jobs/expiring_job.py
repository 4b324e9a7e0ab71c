"""Events of one key, a second apart, whose agent tells its `seq`. With a time to live of less, or of more."""

from __future__ import annotations

import sys

from pyflink.common import Configuration, Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.table import StreamTableEnvironment

from beam_agents.activation import AgentConfig
from beam_agents.flink import run_agent


def main(ttl_s: str, out: str) -> None:
    settings = Configuration()
    settings.set_string("parallelism.default", "1")
    settings.set_string("python.fn-execution.bundle.time", "20")
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector'='datagen', 'fields.n.kind'='sequence', 'fields.n.start'='0',"
        " 'fields.n.end'='3', 'rows-per-second'='1')"
    )
    texts = tables.to_data_stream(tables.from_path("numbers")).map(lambda row: str(row[0]), output_type=Types.STRING())

    async def agent(ctx, text):
        return str(ctx.seq)

    config = AgentConfig("openai:any", api_key_env="PROOF_KEY", namespace="expiring", state_ttl_s=float(ttl_s))
    streams = run_agent(texts, agent, config, key_by=lambda text: "k")
    streams.main.sink_to(FileSink.for_row_format(out, Encoder.simple_string_encoder()).build())
    env.execute("expiring")


if __name__ == "__main__":
    main(*sys.argv[1:])
