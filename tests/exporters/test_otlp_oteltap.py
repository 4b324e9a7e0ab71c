"""The same wire, received by somebody else's OTLP receiver."""

from __future__ import annotations

import asyncio
import socket

from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings

from beam_agents.exporters import open_exporter
from tests.exporters.test_otlp import CALL, TRACE, activation, call


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_spans_and_metrics_are_received() -> None:
    port = free_port()
    async with OtelTapHttpProtobufReceiver(OtelTapHttpProtobufReceiverSettings(http_port=port)) as receiver:
        span = asyncio.ensure_future(receiver.await_trace(lambda span: span.name == "chat gpt-4o-mini", timeout=30))
        tokens = asyncio.ensure_future(
            receiver.await_metric(lambda metric: metric.name == "gen_ai.client.token.usage", timeout=30)
        )
        await asyncio.sleep(0)
        exporter = open_exporter(f"http://127.0.0.1:{port}")
        exporter.export([activation(), call()])
        await asyncio.to_thread(exporter.close)
        assert ((await span).trace_id, (await span).span_id) == (TRACE, CALL)
        assert sum(point.sum for point in (await tokens).histogram.data_points) == 17
    assert (exporter.exported, exporter.dropped) == (2, 0)
