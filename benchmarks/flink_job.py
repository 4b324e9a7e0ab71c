"""The job behind `benchmarks.flink`: lines from a socket, one call for each, the answered lines to a socket.

Either through `run_agent`, or through PyFlink's own `AsyncFunction` and plain aiohttp. Sockets are Java's, so that
nothing but the measured step runs in Python.
"""

from __future__ import annotations

import argparse

import aiohttp
from pyflink.common import Time, Types
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import AsyncDataStream, DataStream, StreamExecutionEnvironment
from pyflink.datastream.functions import AsyncFunction

from beam_agents.activation import AgentConfig
from beam_agents.flink import run_agent

_CAPACITY = 1_000


class Ask(AsyncFunction):
    """The same call as the agent's, as one would write it by hand."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None

    async def async_invoke(self, value: str) -> list[str]:
        """Called by Flink on its own loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        body = {"model": "any", "messages": [{"role": "user", "content": f"event {value}"}]}
        async with self._session.post(f"{self._endpoint}/chat/completions", json=body) as answer:
            answer.raise_for_status()
            told = await answer.json()
        assert told["choices"][0]["message"]["content"]
        return [f"{value}\n"]

    def timeout(self, value: str) -> list[str]:
        """Called by Flink when a call took too long."""
        raise TimeoutError(value)


def by_hand(lines: DataStream, given: argparse.Namespace) -> DataStream:
    """PyFlink's own way."""
    spread = lines.rebalance()
    return AsyncDataStream.unordered_wait(spread, Ask(given.endpoint), Time.seconds(60), _CAPACITY, Types.STRING())


def by_agent(lines: DataStream, given: argparse.Namespace) -> DataStream:
    """Ours: one activation for each line, its key's events in order."""
    keys = given.keys

    async def agent(ctx, line):  # type: ignore[no-untyped-def]
        await ctx.complete(f"event {line}")
        ctx.state = (ctx.state or 0) + 1
        return f"{line}\n"

    config = AgentConfig("openai:any", base_url=given.endpoint, api_key_env="PROOF_KEY", max_in_flight=_CAPACITY)
    return run_agent(lines, agent, config, key_by=lambda line: str(int(line) % keys)).main


def main() -> None:
    """Build the job and run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=("async", "agent"), required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--source", type=int, required=True)
    parser.add_argument("--sink", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    given = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    java = env._j_stream_execution_environment.socketTextStream("127.0.0.1", given.source)
    lines = DataStream(java)
    answered = by_hand(lines, given) if given.way == "async" else by_agent(lines, given)
    answered._j_data_stream.writeToSocket("127.0.0.1", given.sink, SimpleStringSchema()._j_serialization_schema)
    env.execute(given.way)


if __name__ == "__main__":
    main()
