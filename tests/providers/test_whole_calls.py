"""Whole calls through the facade: the example agent on every wire, and attempts that equal the server's count."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from beam_agents.errors import (
    ProviderError,
    ProviderRequestError,
    ResponseDecodeError,
    SchemaNotExpressibleError,
    ServerError,
)
from beam_agents.providers import AnthropicClient
from tests.providers.agents import Advice, Bench, weather_agent
from tests.providers.wires import WIRES, Wire
from tests.servers import raw_tcp
from tests.servers.raw_tcp import RawServer, Received, Reply, answer


@pytest.mark.parametrize("wire", [one for one in WIRES.values() if one.tool_call], ids=lambda wire: wire.vendor)
async def test_the_same_agent_runs_on_every_wire_with_tools(wire: Wire):
    def script(request: Received) -> Reply:
        shown = request.body.decode()
        return answer(wire.answer('{"umbrella": true, "mood": "bad"}') if "rain" in shown else wire.tool_call)

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


class AnyValue(BaseModel):
    value: Any


HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("kind", "options", "asked", "expected"),
    [
        ("no key", {"api_key": None, "api_key_env": "UNSET"}, {}, ProviderRequestError),
        ("a role of its own", {}, {"messages": [{"role": "poet", "content": "x"}]}, ValueError),
        ("a schema that cannot be asked for", {}, {"output_schema": AnyValue}, SchemaNotExpressibleError),
        ("a parameter that the request sets", {}, {"stream": True}, ValueError),
    ],
)
async def test_what_fails_before_a_request_leaves_is_no_attempt(kind: str, options: Any, asked: Any, expected: type):
    with RawServer(lambda request: answer({})) as server:
        bench = Bench(AnthropicClient(base_url=server.url, **options))
        with pytest.raises(expected):
            await bench.complete(**{"messages": HI, **asked})
    assert bench.traced_attempts == [0]
    assert "beam_agents.attempt_log" not in bench.sink.trace_events[0].attributes
    assert server.received == []


async def test_an_async_key_that_fails_is_no_attempt_and_not_retried(wire: Wire):
    async def token() -> str:
        raise ServerError(503)

    bench = Bench(wire.client("http://127.0.0.1:9", api_key=token))
    with pytest.raises(ServerError):
        await bench.complete(HI)
    assert bench.traced_attempts == [0]


async def test_a_client_with_a_complete_of_its_own_is_called_by_it(wire: Wire):
    called: list[str] = []

    class Watched(type(wire.client("http://127.0.0.1:9"))):  # type: ignore[misc]
        async def complete(self, request: Any) -> Any:
            called.append(request.model_id)
            return await super().complete(request)

    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        bench = Bench(Watched(base_url=server.url))
        await bench.complete(HI)
        await bench.client.aclose()
    assert called == ["test-model"]
    assert bench.traced_attempts == [1]
