"""One line for each thing worth a person's eye, and not more of them than a person reads."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_agents.activation import AgentConfig, close_activation_loop
from beam_agents.activation.loop import activation_loop
from beam_agents.activation.resources import Resources
from beam_agents.activation.run import Activation, run_activation
from beam_agents.activation.staging import Position, Scope
from beam_agents.errors import ProviderTimeout, ServerError
from beam_agents.model import DecodedResponse, RetryPolicy, reset_circuit_breakers
from beam_agents.notices import NOTICES, Notices
from beam_agents.testing import FakeLLM, ManualClock, RecordingSleep, match_any, raise_error

PAGE = Path(__file__).parents[1] / "docs" / "logs.md"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines so far."""
    caplog.set_level(logging.WARNING, "beam_agents")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_line_is_its_kind_and_its_fields(lines: Any, caplog: pytest.LogCaptureFixture) -> None:
    Notices().tell("circuit_opened", 0, endpoint="https://llm.example", failures=3, cause="ServerError 503", gone=None)
    assert lines() == ['circuit_opened endpoint=https://llm.example failures=3 cause="ServerError 503"']
    assert vars(caplog.records[0])["beam_agents"] == {
        "notice": "circuit_opened",
        "endpoint": "https://llm.example",
        "failures": 3,
        "cause": "ServerError 503",
    }


def test_ten_lines_a_minute_and_then_how_many_were_held_back(lines: Any) -> None:
    clock, notices = ManualClock(1_000_000), Notices()
    for n in range(25):
        notices.tell("dead_letter", clock(), seq=n)
        clock.advance(1_000)
    assert lines() == [f"dead_letter seq={n}" for n in range(10)]
    clock.advance(35_000)
    notices.tell("dead_letter", clock(), seq=25)
    notices.tell("dead_letter", clock(), seq=26)
    assert lines()[10:] == ["dead_letter seq=25 held_back=15", "dead_letter seq=26"]


def test_one_flood_drowns_nothing_else(lines: Any) -> None:
    notices = Notices(per_minute=1)
    for about in ("a", "b", "a"):
        notices.tell("circuit_opened", 0, about=about, endpoint=about)
    notices.tell("dead_letter", 0, about="a")
    assert lines() == ["circuit_opened endpoint=a", "circuit_opened endpoint=b", "dead_letter"]


def test_a_clock_set_back_silences_nothing(lines: Any) -> None:
    notices = Notices(per_minute=1)
    for now_ms in (1_000_000, 10, 20):
        notices.tell("divergence", now_ms, at=now_ms)
    assert lines() == ["divergence at=1000000", "divergence at=10"]


def test_a_thousand_subjects_take_no_more_room_than_some(lines: Any) -> None:
    notices = Notices(per_minute=1)
    for n in range(1_000):
        notices.tell("circuit_opened", 0, about=str(n))
    assert len(notices._windows) <= 256
    assert len(lines()) == 1_000


@settings(deadline=None)
@given(st.text())
def test_a_line_stays_one_line(text: str) -> None:
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("beam_agents")
    logger.addHandler(handler)
    try:
        Notices().tell("dead_letter", 0, kind=text)
    finally:
        logger.removeHandler(handler)
    assert told[0].isprintable()


@pytest.fixture
def fail() -> Iterator[Callable[..., None]]:
    """Runs one activation that asks a failing model a secret."""
    clock, llm = ManualClock(1_000_000), FakeLLM()

    async def agent(ctx: Any, event: Any) -> None:
        await ctx.complete(f"a secret prompt about {event}")

    def _fail(error: Exception, **fields: Any) -> None:
        llm.add_rule(match_any(), raise_error(error))
        config = AgentConfig(provider=lambda: llm, decode=lambda _: DecodedResponse(None, None), **fields)
        resources = Resources(config, activation_loop(), now_ms=clock, sleep=RecordingSleep(clock))
        asyncio.run(run_activation(Activation(agent, "secret", Position(Scope("step"), b"secret", 4)), resources))

    reset_circuit_breakers()
    yield _fail
    close_activation_loop()


@pytest.mark.filterwarnings("ignore:breaker_threshold")
def test_an_outage_tells_what_opened_the_circuit_and_what_died_of_it(fail: Any, lines: Any) -> None:
    fail(ServerError(503), retry_policy=RetryPolicy(3, 0, 0), breaker_threshold=3, on_open="dead_letter")
    opened, died = lines()
    assert re.fullmatch(r'circuit_opened endpoint=\S+ failures=3 cause="ServerError 503" for_ms=10000', opened)
    assert re.fullmatch(r"dead_letter kind=ServerError trace=[0-9a-f]{32} seq=4 requests=3 scope=step", died)


def test_a_request_in_doubt_is_told_with_its_id(fail: Any, lines: Any) -> None:
    fail(ProviderTimeout(), retry_policy=RetryPolicy(1, 0, 0))
    doubtful, _ = lines()
    assert re.fullmatch(r"call_in_doubt endpoint=\S+ request=[0-9a-f]{64}:1 cause=ProviderTimeout", doubtful)
    assert "secret" not in "".join(lines())


def test_what_fails_its_bundle_is_no_dead_letter(fail: Any, lines: Any) -> None:
    fail(ServerError(503), retry_policy=RetryPolicy(1, 0, 0), on_error="raise")
    assert lines() == []


def test_the_page_names_every_notice() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \|", PAGE.read_text("utf-8"), re.M))
    assert rows == NOTICES
