"""Whole calls through the facade: the example agent on every wire, and attempts that equal the server's count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam_agents.errors import ProviderError, ProviderRequestError, ResponseDecodeError
from tests.providers.agents import Advice, Bench, weather_agent
from tests.providers.wires import Wire
from tests.servers import raw_tcp
from tests.servers.raw_tcp import RawServer, Received, Reply, answer

CALLS: dict[str, dict[str, Any]] = {
    "openai": {
        "choices": [
            {
                "message": {
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "weather", "arguments": '{"city":"Bern"}'},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
    "anthropic": {
        "type": "message",
        "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Bern"}}],
        "stop_reason": "tool_use",
    },
    "gemini": {
        "candidates": [
            {
                "content": {"parts": [{"functionCall": {"name": "weather", "args": {"city": "Bern"}}}]},
                "finishReason": "STOP",
            }
        ]
    },
}


async def test_the_same_agent_runs_on_every_wire(wire: Wire):
    def script(request: Received) -> Reply:
        shown = request.body.decode()
        return answer(wire.answer('{"umbrella": true, "mood": "bad"}') if "rain" in shown else CALLS[wire.vendor])

    with RawServer(script) as server:
        bench = Bench(wire.client(server.url))
        advice = await weather_agent(bench, "Bern")
        await bench.client.aclose()
    assert advice == Advice(umbrella=True, mood="bad")
    first, second = (json.dumps(seen.json) for seen in server.received)
    assert "You advise travellers." in first
    assert "weather" in first
    assert "umbrella" in second.replace("Do I need an umbrella", "")
    assert bench.traced_attempts == [1, 1]


FAILURES = {
    "429": answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "1"}),
    "408": answer(b"", 408),
    "500": answer(b"<html>", 500),
    "529": answer({"type": "error", "error": {"type": "overloaded_error"}}, 529),
    "error in a 200": answer({"error": {"code": 503}}),
    "html in a 200": answer(b"<html>"),
    "400": answer({"error": {"message": "bad"}}, 400),
    "no money": answer({"error": {"code": "insufficient_quota"}}, 429),
    "no shape": answer({"choices": None}),
    "reset before": raw_tcp.RESET_BEFORE,
    "reset inside": raw_tcp.RESET_INSIDE,
    "short body": raw_tcp.SHORT_BODY,
    "bad chunks": raw_tcp.BAD_CHUNKS,
    "bad gzip": raw_tcp.BAD_GZIP,
    "stall": raw_tcp.STALL_BEFORE,
    "drip": raw_tcp.DRIP,
}
NOT_RETRIED = {"400": ProviderRequestError, "no money": ProviderRequestError, "no shape": ResponseDecodeError}


@pytest.mark.parametrize("kind", sorted(FAILURES))
async def test_attempts_equal_what_the_server_counted(wire: Wire, kind: str):
    with RawServer(lambda request: FAILURES[kind]) as server:
        bench = Bench(wire.client(server.url, timeout_s=0.4 if kind in ("stall", "drip") else 30), attempts=3)
        with pytest.raises(NOT_RETRIED.get(kind, ProviderError)):
            await bench.complete([{"role": "user", "content": "hi"}])
        await bench.client.aclose()
    assert bench.traced_attempts == [len(server.received)]
    assert len(server.received) == (1 if kind in NOT_RETRIED else 3)


async def test_attempts_equal_what_the_server_counted_on_the_way_to_success(wire: Wire):
    replies = [FAILURES["500"], FAILURES["reset inside"], answer(wire.answer("at last"))]
    with RawServer(lambda request: replies[len(server.received) - 1]) as server:
        bench = Bench(wire.client(server.url), attempts=3)
        result = await bench.complete([{"role": "user", "content": "hi"}])
        await bench.client.aclose()
    assert (result.text, result.attempts) == ("at last", 3)
    assert len(server.received) == 3


async def test_the_wait_is_at_least_what_the_endpoint_asked_for(wire: Wire):
    replies = [answer(b"", 503, {"Retry-After": "7"}), answer(wire.answer("ok"))]
    with RawServer(lambda request: replies[len(server.received) - 1]) as server:
        bench = Bench(wire.client(server.url))
        await bench.complete([{"role": "user", "content": "hi"}])
        await bench.client.aclose()
    (waited,) = bench.sleep.delays
    assert waited >= 7000
