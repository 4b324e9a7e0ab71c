"""Builds the graphs of `run_agent` and `complete`, runs nothing, and prints the types in them as JSON."""

from __future__ import annotations

import json
from typing import Any

from pyflink.common import Types
from pyflink.common.typeinfo import _from_java_type
from pyflink.datastream import DataStream, StreamExecutionEnvironment

from beam_agents.activation import AgentConfig
from beam_agents.flink import AgentStreams, complete, run_agent


async def agent(ctx, event):
    return event


def between(stream: DataStream, source: DataStream) -> list[str]:
    """The type of every transformation from a source to a stream."""
    first = source._j_data_stream.getTransformation().getId()
    found, left = [], [stream._j_data_stream.getTransformation()]
    while left:
        one = left.pop()
        if one.getId() != first:
            found.append(str(_from_java_type(one.getOutputType())))
            left += list(one.getInputs())
    return found


def stages(*asked: str) -> int:
    """How many operators a job has whose side outputs are asked for."""
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection(["a"], type_info=Types.STRING()).key_by(lambda text: text, key_type=Types.STRING())
    streams = run_agent(keyed, agent, AgentConfig("openai:any"))
    for stream in (streams.main, *(getattr(streams, name) for name in asked)):
        stream.print()
    return len(json.loads(env.get_execution_plan())["nodes"])


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    texts = env.from_collection(["a", "b"], type_info=Types.STRING())
    keyed = texts.key_by(lambda text: text, key_type=Types.STRING())
    config = AgentConfig("openai:any")

    def told(streams: AgentStreams) -> dict[str, list[str]]:
        return {
            "streams": [str(stream.get_type()) for stream in streams],
            "between": [one for stream in streams for one in between(stream, texts)],
        }

    graphs: dict[str, Any] = {
        "run_agent": told(run_agent(keyed, agent, config)),
        "key_by": told(run_agent(texts, agent, config, key_by=str, uid="key_by")),
        "complete": told(complete(texts, str, config)),
        "declared": told(run_agent(keyed, agent, config, output_type=Types.LONG(), uid="declared")),
    }
    graphs["stages"] = [stages(), stages("traces"), stages("errors")]
    print(json.dumps({**graphs, "pickled": str(Types.PICKLED_BYTE_ARRAY())}))


if __name__ == "__main__":
    main()
