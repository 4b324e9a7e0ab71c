"""A second opinion on all three wires: stubllm's answers, errors and counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from beam_agents.errors import ProviderRequestError, RateLimitError, ServerError
from beam_agents.values import TokenUsage
from tests.providers.agents import Bench
from tests.providers.wires import Wire
from tests.servers.stub_llm import StubLlm

STATUSES = [400, 401, 429, 500, 503, 529]


def fixture(name: str, *responses: dict[str, Any]) -> dict[str, Any]:
    match = {"messages": [{"role": "user", "content": {"exact": name}}]}
    return {"name": name, "match": match, "sequence": list(responses)}


def failing(status: int) -> dict[str, Any]:
    return {"http_status": status, "error_message": "it failed"}


FIXTURES = [
    fixture("plain", {"content": "grüezi", "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}),
    fixture("mended", failing(503), failing(429), {"content": "at last"}),
    fixture(
        "tool",
        {"tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}]},
    ),
    *(fixture(f"status-{status}", failing(status)) for status in STATUSES),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubLlm]:
    with StubLlm(tmp_path_factory.mktemp("stubllm"), FIXTURES) as server:
        yield server


async def bench_on(running: StubLlm, wire: Wire, attempts: int = 3) -> Bench:
    await running.ready()
    base = running.url + ("/v1" if wire.vendor == "openai" else "")
    return Bench(wire.client(base), attempts=attempts)


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def test_an_answer(running: StubLlm, mocked_wire: Wire):
    bench = await bench_on(running, mocked_wire)
    result = await bench.complete(user("plain"))
    await bench.client.aclose()
    assert result.text == "grüezi"
    assert result.usage == TokenUsage(7, 3, 10)


async def test_a_tool_call(running: StubLlm, mocked_wire: Wire):
    bench = await bench_on(running, mocked_wire)
    result = await bench.complete(user("tool"))
    await bench.client.aclose()
    (call,) = result.decoded.tool_calls
    assert call["function"]["name"] == "weather"
    assert "Bern" in call["function"]["arguments"]


@pytest.mark.parametrize("status", STATUSES)
async def test_errors_in_the_vendors_shape(running: StubLlm, mocked_wire: Wire, status: int):
    bench = await bench_on(running, mocked_wire)
    before = running.counted().get(f"status-{status}", 0)
    expected = ProviderRequestError if status < 429 else RateLimitError if status == 429 else ServerError
    with pytest.raises(expected) as caught:
        await bench.complete(user(f"status-{status}"))
    await bench.client.aclose()
    assert caught.value.status == status
    assert caught.value.code
    served = running.counted()[f"status-{status}"] - before
    assert bench.traced_attempts == [served]
    assert served == (1 if status < 429 else 3)


async def test_a_sequence_of_failures_then_success(tmp_path: Any, mocked_wire: Wire):
    with StubLlm(tmp_path, FIXTURES) as server:
        bench = await bench_on(server, mocked_wire)
        result = await bench.complete(user("mended"))
        await bench.client.aclose()
        assert (result.text, result.attempts) == ("at last", 3)
        assert server.counted()["mended"] == 3
