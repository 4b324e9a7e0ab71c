"""Calls that end when `capacity` of them are under way, or after a while. Texts in, the most calls at once out."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from pyflink.common import Configuration, Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink

from beam_agents.activation import AgentConfig
from beam_agents.flink import complete
from beam_agents.values import DecodedResponse, LlmResponse, TokenUsage

_PATIENCE_S = 20


class Meeting:
    """A provider whose callers wait for each other."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._count = 0
        self._complete = asyncio.Event()

    async def complete(self, request) -> LlmResponse:
        self._count += 1
        if self._count == self._expected:
            self._complete.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._complete.wait(), _PATIENCE_S)
        return LlmResponse(str(self._count).encode())


def decode(data: bytes) -> DecodedResponse:
    return DecodedResponse(TokenUsage(1, 1, 2), data.decode())


def main(capacity: str, out: str) -> None:
    settings = Configuration()
    settings.set_string("parallelism.default", "1")
    settings.set_string("python.fn-execution.bundle.time", "60000")
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    count = int(capacity)
    texts = env.from_collection([f"text {n}" for n in range(count)], type_info=Types.STRING())
    config = AgentConfig(provider=lambda: Meeting(count), decode=decode, max_in_flight=count)
    streams = complete(texts, lambda text: text, config)
    streams.main.sink_to(FileSink.for_row_format(out, Encoder.simple_string_encoder()).build())
    env.execute("capacity")


if __name__ == "__main__":
    main(*sys.argv[1:])
