"""Builds the graphs of `run_agent` and `complete`, runs nothing, and prints the types in them as JSON."""

from __future__ import annotations

import json
from typing import Any

from pyflink.common import Types
from pyflink.common.typeinfo import _from_java_type
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import to_jarray

from beam_agents.activation import AgentConfig
from beam_agents.flink import AgentStreams, complete, run_agent
from beam_agents.flink.buckets import BUCKETS


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


def keying() -> list[int]:
    """How many subtasks give events their keys, by a keyed stream and by `key_by=`, behind a source of one."""
    found = []
    for keyed in (True, False):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(4)
        texts = env.from_collection(["a"], type_info=Types.STRING())
        config = AgentConfig("openai:any")
        if keyed:
            streams = run_agent(texts.key_by(str, key_type=Types.STRING()), agent, config)
        else:
            streams = run_agent(texts, agent, config, key_by=str)
        streams.main.print()
        nodes = json.loads(env.get_execution_plan())["nodes"]
        first = next(node for node in nodes if "_stream_key_by_map_operator" in node["type"])
        found.append(first["parallelism"])
    return found


def groups() -> list[int]:
    """Flink's groups of keys of the buckets."""
    java = get_gateway().jvm
    assign = java.org.apache.flink.runtime.state.KeyGroupRangeAssignment.assignToKeyGroup
    return [assign(java.org.apache.flink.types.Row.of(to_jarray(java.Object, [bucket])), 128) for bucket in BUCKETS]


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
    graphs["stages"] = [stages(), stages("traces")]
    graphs |= {"keying": keying(), "groups": groups()}
    print(json.dumps({**graphs, "pickled": str(Types.PICKLED_BYTE_ARRAY())}))


if __name__ == "__main__":
    main()
