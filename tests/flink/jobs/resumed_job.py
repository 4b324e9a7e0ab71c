"""Events of many keys whose agents wait until a file is there, in a job that never ends. Runs in this process.

Bundles last longer than the time between checkpoints, so every checkpoint cuts one in two.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pyflink.common import Configuration, Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy
from pyflink.table import StreamTableEnvironment

from beam_agents.activation import AgentConfig
from beam_agents.flink import run_agent


def main(root: str, events: str, port: str, resumed_from: str = "") -> None:
    folder = Path(root)
    settings = {
        "parallelism.default": "1",
        "rest.bind-port": port,
        "python.fn-execution.bundle.time": "4000",
        "execution.checkpointing.interval": "1000",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "execution.checkpointing.num-retained": "100",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        **({"execution.state-recovery.path": resumed_from} if resumed_from else {}),
    }
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector'='datagen', 'fields.n.kind'='sequence', 'fields.n.start'='0',"
        f" 'fields.n.end'='{int(events) - 1}', 'rows-per-second'='10')"
    )
    tables.execute_sql("CREATE TABLE ticks (n BIGINT) WITH ('connector'='datagen', 'rows-per-second'='1')")
    texts = tables.to_data_stream(tables.from_path("numbers")).map(lambda row: str(row[0]), output_type=Types.STRING())
    never = tables.to_data_stream(tables.from_path("ticks")).flat_map(lambda row: [], output_type=Types.STRING())

    async def agent(ctx, text):
        with (folder / "begun").open("a") as begun:
            begun.write(f"{text}\n")
        while not (folder / "go").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.1)
        return text

    config = AgentConfig("openai:any", api_key_env="PROOF_KEY", namespace="resumed", activation_timeout_s=300)
    keyed = texts.union(never).key_by(lambda text: text, key_type=Types.STRING())
    run_agent(keyed, agent, config).main.sink_to(
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    ).uid("sink")
    env.execute("resumed")


if __name__ == "__main__":
    main(*sys.argv[1:])
