"""The local servers, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from beam_agents.cli.local.child import ServerChild, ServerStartError
from beam_agents.cli.local.faults import Fault, FaultPlan
from beam_agents.cli.local.llama import serve_gguf
from beam_agents.cli.local.proxy import CountingProxy
from beam_agents.cli.local.scripted_server import SCRIPTED_NAME, answer_to
from tests.servers.tiny_model import TINY_MODEL_NAME, write_tiny_model

ENUM_SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "Mood",
        "schema": {
            "type": "object",
            "properties": {"mood": {"enum": ["good", "bad"]}},
            "required": ["mood"],
            "additionalProperties": False,
        },
    },
}


async def ask(endpoint: str, text: str, model: str = TINY_MODEL_NAME, **params: Any) -> tuple[int, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, **params}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{endpoint}/v1/chat/completions", json=body, headers={"Authorization": "Bearer k"}) as answer,
    ):
        read = await answer.read()
        return answer.status, json.loads(read) if answer.content_type == "application/json" else read


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tiny")
    model = write_tiny_model(folder / "tiny.gguf")
    with serve_gguf(model, alias=TINY_MODEL_NAME, log=folder / "log", threads=1, api_key="k") as child:
        yield child.endpoint


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("scripted") / "log"
    with ServerChild("beam_agents.cli.local.scripted_server", [], log=log) as child:
        yield child.endpoint


async def test_the_tiny_model_answers_within_an_enum_schema(tiny: str) -> None:
    status, answer = await ask(tiny, "how are you?", response_format=ENUM_SCHEMA)
    assert status == 200
    assert json.loads(answer["choices"][0]["message"]["content"])["mood"] in ("good", "bad")
    assert answer["usage"]["total_tokens"] > 0


async def test_the_tiny_model_is_cut_at_the_token_limit(tiny: str) -> None:
    _, answer = await ask(tiny, "héllo 你好", max_tokens=5)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 5


def test_the_tiny_model_is_the_same_file_for_the_same_seed(tmp_path: Path) -> None:
    first = write_tiny_model(tmp_path / "a.gguf").read_bytes()
    assert first == write_tiny_model(tmp_path / "b.gguf").read_bytes()
    assert first != write_tiny_model(tmp_path / "c.gguf", seed=1).read_bytes()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServerStartError, match=r"ended while starting\n"):
        serve_gguf(tmp_path / "missing.gguf", alias="none", log=tmp_path / "log")


def test_closing_ends_the_child(tmp_path: Path) -> None:
    child = ServerChild("beam_agents.cli.local.scripted_server", [], log=tmp_path / "log")
    child.close()
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


async def test_the_stand_in_says_what_it_is(scripted: str) -> None:
    status, answer = await ask(scripted, "I was charged twice, please refund today")
    assert status == 200
    assert answer["model"] == SCRIPTED_NAME
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"category": "billing", "urgency": "high"}


def test_the_stand_in_knows_each_category() -> None:
    asked = ["my invoice is wrong", "I cannot log in", "how do I export?", "I love it", "it crashes"]
    assert [answer_to(text)["category"] for text in asked] == ["billing", "account", "how_to", "feedback", "bug"]


async def test_the_proxy_knows_when_the_model_is_done(scripted: str) -> None:
    with CountingProxy(scripted) as proxy:
        asked = [asyncio.create_task(ask(proxy.endpoint, text)) for text in ("one", "two")]
        await asyncio.gather(*asked)
        assert proxy.wait_until_idle(10)
        assert proxy.snapshot().served == 2


async def test_the_proxy_counts_what_passes(scripted: str) -> None:
    with CountingProxy(scripted) as proxy:
        for text in ("one", "two", "one"):
            status, _ = await ask(proxy.endpoint, text)
            assert status == 200
        count = proxy.take_count()
        await ask(proxy.endpoint, "one")
        assert proxy.count.served_twice == 0
    assert (count.requests, count.served, count.served_twice) == (3, 3, 1)
    assert count.tokens > 0


@pytest.mark.parametrize(("fault", "status"), [(Fault.RATE_LIMIT, 429), (Fault.UNAVAILABLE, 503), (Fault.STALL, 200)])
async def test_the_proxy_injects_statuses(scripted: str, fault: Fault, status: int) -> None:
    with CountingProxy(scripted, FaultPlan(**{fault.value: 1.0}, stall_s=0.01)) as proxy:
        assert (await ask(proxy.endpoint, "hello"))[0] == status
        assert proxy.count.faults == {fault: 1}
        assert proxy.count.served == (1 if status == 200 else 0)


@pytest.mark.parametrize(("fault", "served"), [(Fault.RESET, 0), (Fault.LOST_ANSWER, 1)])
async def test_the_proxy_resets_connections(scripted: str, fault: Fault, served: int) -> None:
    with CountingProxy(scripted, FaultPlan(**{fault.value: 1.0})) as proxy:
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask(proxy.endpoint, "hello")
        assert proxy.count.served == served


def test_a_plan_is_seeded_and_lets_a_patient_client_through() -> None:
    plan = FaultPlan(rate_limit=0.5, reset=0.5)
    drawn = [plan.fault(b"body", earlier) for earlier in range(8)]
    assert drawn == [FaultPlan(rate_limit=0.5, reset=0.5).fault(b"body", earlier) for earlier in range(8)]
    assert [fault is None for fault in drawn] == [False, False, False, True] * 2
    assert drawn != [FaultPlan(rate_limit=0.5, reset=0.5, seed=9).fault(b"body", earlier) for earlier in range(8)]


@pytest.mark.parametrize("shares", [{"reset": 1.5}, {"reset": -0.1}, {"reset": 0.6, "stall": 0.6}])
def test_impossible_plans_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="add up to at most 1"):
        FaultPlan(**shares)
