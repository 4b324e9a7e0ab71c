"""An independent server of all three wires, with faults and its own count of calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_agents.errors import ConnectionBroken, ProviderRequestError, RateLimitError, ServerError, UnreadableAnswer
from tests.providers.agents import Advice, Bench, weather_agent
from tests.providers.wires import WIRES, Wire
from tests.servers.aimock import Aimock

pytestmark = pytest.mark.services

ERRORS = {
    400: "bad_request",
    401: "invalid_api_key",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "overloaded",
}


def failing(text: str, status: int, code: str) -> dict[str, Any]:
    error = {"message": "it failed", "type": code, "code": code}
    return {"match": {"userMessage": text}, "response": {"error": error, "status": status}}


def chaotic(text: str, **chaos: float) -> dict[str, Any]:
    return {"match": {"userMessage": text}, "response": {"content": "never"}, "chaos": chaos}


FIXTURES = [
    {"match": {"userMessage": "plain"}, "response": {"content": "grüezi"}},
    {"match": {"toolResultContains": "rain"}, "response": {"content": '{"umbrella": true, "mood": "bad"}'}},
    {
        "match": {"userMessage": "umbrella"},
        "response": {"toolCalls": [{"name": "weather", "arguments": '{"city": "Bern"}'}]},
    },
    *(failing(f"status-{status}", status, code) for status, code in ERRORS.items()),
    failing("no-money", 429, "insufficient_quota"),
    chaotic("drop", dropRate=1),
    chaotic("malformed", malformedRate=1),
    chaotic("disconnect", disconnectRate=1),
    chaotic("limited", rateLimitRate=1),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    with Aimock(tmp_path_factory.mktemp("aimock"), FIXTURES) as server:
        yield server


async def bench_on(server: Aimock, wire: Wire) -> Bench:
    await server.ready()
    return Bench(wire.client(server.url + ("/v1" if wire.vendor == "openai" else "")))


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def test_an_answer(running: Aimock, mocked_wire: Wire):
    bench = await bench_on(running, mocked_wire)
    result = await bench.complete(user("plain"))
    await bench.client.aclose()
    assert result.text == "grüezi"
    assert result.decoded.finish_reason == "stop"


async def test_the_example_agent(running: Aimock, mocked_wire: Wire):
    bench = await bench_on(running, mocked_wire)
    before = len(running.journal())
    advice = await weather_agent(bench, "Bern")
    await bench.client.aclose()
    assert advice == Advice(umbrella=True, mood="bad")
    assert len(running.journal()) - before == 2


@pytest.mark.parametrize(
    ("text", "expected", "requests"),
    [
        ("status-400", ProviderRequestError, 1),
        ("status-401", ProviderRequestError, 1),
        ("status-429", RateLimitError, 3),
        ("status-500", ServerError, 3),
        ("status-503", ServerError, 3),
        ("drop", ServerError, 3),
        ("malformed", UnreadableAnswer, 3),
        ("disconnect", ConnectionBroken, 3),
        ("limited", RateLimitError, 3),
    ],
)
async def test_faults_and_its_count(running: Aimock, mocked_wire: Wire, text: str, expected: type, requests: int):
    bench = await bench_on(running, mocked_wire)
    before = len(running.journal())
    with pytest.raises(expected) as caught:
        await bench.complete(user(text))
    await bench.client.aclose()
    assert type(caught.value) is expected
    counted = len(running.journal()) - before
    assert bench.traced_attempts == [counted]
    assert counted == requests


async def test_exhausted_quota(running: Aimock):
    bench = await bench_on(running, WIRES["openai"])
    before = len(running.journal())
    with pytest.raises(ProviderRequestError) as caught:
        await bench.complete(user("no-money"))
    await bench.client.aclose()
    assert caught.value.code == "insufficient_quota"
    assert len(running.journal()) - before == 1


async def test_the_limit_says_how_long_to_wait(running: Aimock, mocked_wire: Wire):
    bench = await bench_on(running, mocked_wire)
    with pytest.raises(RateLimitError) as caught:
        await bench.complete(user("limited"))
    await bench.client.aclose()
    assert caught.value.retry_after_ms > 0


def test_a_missing_program_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("AIMOCK", raising=False)

    class Elsewhere(Aimock):
        parts = tmp_path

    with pytest.raises(AssertionError, match="make parts"):
        Elsewhere(tmp_path, [])
