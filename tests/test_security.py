"""What is found where, for marked prompts, answers, events and a key: the table of the page on security."""

from __future__ import annotations

import base64
import bz2
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler

from beam_agents import AgentConfig, RunAgent, local_options
from beam_agents.activation import close_activation_loop
from beam_agents.model import reset_circuit_breakers
from tests.beam import scripted
from tests.beam.endpoint import CountingEndpoint

PROMPT, ANSWER, EVENT, API_KEY = "MARKprompt", "MARKanswer", "MARKevent", "sk-MARKkey"
JOURNAL_KEY = "0" * 43 + "="


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    scripted.reset()
    reset_circuit_breakers()
    yield
    close_activation_loop()


async def _agent(ctx: Any, event: str) -> Any:
    await ctx.complete(f"{PROMPT} {event}")
    if "refused" in event:
        raise ValueError("on purpose")
    return "done"


@pytest.fixture(params=["", "?key_env=JOURNAL_KEY"], ids=["open", "sealed"])
def places(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> dict[str, bytes]:
    """What a run left in each place: an answered event, and one whose activation fails after it has paid."""
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    monkeypatch.setenv("JOURNAL_KEY", JOURNAL_KEY)
    caplog.set_level(logging.DEBUG, "beam_agents")
    journal = tmp_path / "journal.db"
    with CountingEndpoint(answer=ANSWER, failing_every=3) as endpoint:
        config = AgentConfig("openai:m", base_url=endpoint.url, journal=f"sqlite:///{journal}{request.param}")
        transform = RunAgent(_agent, config)
        with beam.Pipeline(options=local_options()) as pipeline:
            pairs = [(f"key-{n}", f"{EVENT} {'refused' * (n % 2)}") for n in range(4)]
            scripted.keep_all(pipeline | beam.Create(pairs) | transform)
        assert (endpoint.served, endpoint.failed) == (4, 1)
    close_activation_loop()
    kept = scripted.kept
    assert (len(kept["main"]), len(kept["errors"])) == (2, 2)
    return {
        "sealed": request.param.encode(),
        "journal": b"".join(file.read_bytes() for file in sorted(tmp_path.glob("journal.db*"))),
        "traces": b"".join(event.SerializeToString() for event in kept["traces"]),
        "errors": repr([letter.to_json() for letter in kept["errors"]]).encode(),
        "logs": caplog.text.encode(),
        "pipeline": bz2.decompress(base64.b64decode(pickler.dumps(transform))) + repr(config).encode(),
    }


def _marks(place: bytes) -> set[str]:
    return {mark for mark in (PROMPT, ANSWER, EVENT, API_KEY) if mark.encode() in place}


def test_each_place_holds_what_the_page_says_and_no_more(places: dict[str, bytes]) -> None:
    assert _marks(places["journal"]) == (set() if places["sealed"] else {ANSWER})
    assert _marks(places["traces"]) == set()
    assert _marks(places["errors"]) == {EVENT}
    assert _marks(places["logs"]) == set()
    assert b"key-0" in places["journal"]
    assert b"key-0" in places["traces"]
    assert API_KEY.encode() not in places["pipeline"]
    assert JOURNAL_KEY.encode() not in places["pipeline"]
    assert b"journal.db" in places["pipeline"]  # so does a password in a journal's address


async def _leaking(ctx: Any, event: str) -> Any:
    await ctx.complete(f"{PROMPT} {event} {API_KEY}")
    if "refused" in event:
        raise ValueError("on purpose")
    return "done"


def _without_prompt(text: str) -> str:
    return text.replace(PROMPT, "[prompt]")


def test_recorded_content_is_redacted_wherever_events_go_and_holds_no_key(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    caplog.set_level(logging.DEBUG, "beam_agents")
    with CountingEndpoint(answer=ANSWER) as endpoint:
        config = AgentConfig("openai:m", base_url=endpoint.url, record_content=True, redact=_without_prompt)
        with beam.Pipeline(options=local_options()) as pipeline:
            pairs = [("key-0", EVENT), ("key-1", f"{EVENT} refused")]
            scripted.keep_all(pipeline | beam.Create(pairs) | RunAgent(_leaking, config))
    traces = b"".join(event.SerializeToString() for event in scripted.kept["traces"])
    (letter,) = scripted.kept["errors"]
    letters = repr(letter.to_json()).encode()
    for place in (traces, letters):
        assert _marks(place) == {ANSWER, EVENT}
        assert b"[prompt]" in place
    assert "dead_letter kind=ValueError" in caplog.text
    assert _marks(caplog.text.encode()) == set()
