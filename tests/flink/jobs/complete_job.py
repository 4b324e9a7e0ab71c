"""One call for each of some texts through `complete`: texts in, files out. Runs in this process."""

from __future__ import annotations

import sys

from pyflink.common import Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink

from beam_agents.activation import AgentConfig
from beam_agents.flink import complete


def main(endpoint: str, out: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    texts = env.from_collection([f"text {n}" for n in range(20)] + ["refuse"], type_info=Types.STRING())
    config = AgentConfig("openai:any", base_url=endpoint, api_key_env="PROOF_KEY", namespace="texts")
    streams = complete(texts, lambda text: 7 if text == "refuse" else f"about {text}", config)
    counted = streams.traces.map(lambda data: str(len(data)), output_type=Types.STRING())
    for name, stream in (("main", streams.main), ("errors", streams.errors), ("traces", counted)):
        stream.sink_to(FileSink.for_row_format(f"{out}/{name}", Encoder.simple_string_encoder()).build())
    env.execute("texts")


if __name__ == "__main__":
    main(*sys.argv[1:])
