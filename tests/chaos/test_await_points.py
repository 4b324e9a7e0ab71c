"""A blow at every await point of the facade: the process dies, its task is cancelled, or the journal fails there.

After each, the work is done again, and the account is held against the endpoint's own.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from beam_agents.activation.dead_letter import DeadLetter
from beam_agents.activation.staging import ActivationStaging, Position, Scope
from beam_agents.journals import open_journal
from beam_agents.model import CircuitBreaker, LlmFacade, ReplayCache, RetryPolicy
from beam_agents.ports import Journal
from beam_agents.testing import ManualClock
from beam_agents.values import DecodedResponse, LlmRequest, TokenUsage
from tests.chaos.audit import Audit, Kills, audit, journal_attempts
from tests.chaos.books import Outputs
from tests.chaos.fuse import Blow, Fuse, FusedClient, FusedJournal, FusedSleep, Server

_SCRIPT = {
    "question 0": ["broken", "answered"],
    "question 1": ["cut", "answered"],
    "question 2": ["answered"],
    "question 3": ["broken", "cut", "answered"],
}
_DEADLINE_MS = 600_000
_POSITION = Position(Scope("chaos"), b"k", 0)


def _decode(response: bytes) -> DecodedResponse:
    text, _, tokens = response.decode().rpartition(" ")
    return DecodedResponse(TokenUsage(int(tokens), 1, int(tokens) + 1), text)


@dataclass
class World:
    """What outlives a process: the endpoint, the clock, the journal's file, what was put out."""

    path: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000_000))
    server: Server = field(default_factory=lambda: Server(_SCRIPT))
    outputs: Outputs = field(default_factory=Outputs)

    def journal(self, owner: str) -> Journal:
        return open_journal(f"sqlite:///{self.path}?synchronous=NORMAL", now_ms=self.clock, owner=owner)

    def audit(self) -> Audit:
        return audit(self.server.ledger, self.outputs, journal_attempts(self.path), Kills((0.0,)))


@contextmanager
def _life(world: World, journal: Journal, fuse: Fuse) -> Iterator[Callable[[], object]]:
    """An activation of two questions, one after the other, and two at once."""
    staging = ActivationStaging(_POSITION)
    facade = LlmFacade(
        FusedClient(world.server, fuse),
        ReplayCache(now_ms=world.clock),
        now_ms=world.clock,
        rng=random.Random(0),
        sleep=FusedSleep(world.clock, fuse),
        breaker=CircuitBreaker(endpoint="fused", threshold=100, cooldown_ms=1),
        retry_policy=RetryPolicy(5, 10, 100),
        decode=_decode,
        staging=staging,
        journal=FusedJournal(journal, fuse),
        deadline_ms=world.clock() + _DEADLINE_MS,
        scope="chaos",
    )

    async def ask(number: int, heard: list[str]) -> str:
        request = LlmRequest("m", [{"role": "user", "content": "\n".join((f"question {number}", *heard))}])
        result = await facade.complete(request, entity_key=b"k", seq=0, step_index=number)
        return str(result.text)

    async def activation() -> list[str]:
        heard = [await ask(0, [])]
        heard.append(await ask(1, heard))
        heard += await asyncio.gather(ask(2, heard), ask(3, heard))
        return heard

    async def reported() -> list[str]:
        try:
            heard = await activation()
        except BaseException as error:
            if not fuse.dead:
                world.outputs.errors.append(DeadLetter.of(_POSITION, None, error, staging.events))
            raise
        world.outputs.traces += staging.events
        world.outputs.main.append({"heard": heard})
        return heard

    yield reported


async def _struck_once(world: World, fuse: Fuse) -> bool:
    """One life with a blow, and as many more as it takes; whether the blow fell."""
    journal = world.journal("first")
    with _life(world, journal, fuse) as run:
        first = fuse.victim = asyncio.ensure_future(run())  # type: ignore[arg-type]
        blow = asyncio.ensure_future(fuse.struck.wait())
        await asyncio.wait((first, blow), return_when=asyncio.FIRST_COMPLETED)
        if fuse.blow != "kill" or not fuse.struck_at:
            await asyncio.wait((first,))
        blow.cancel()
    if not first.done():
        world.clock.advance(60_000)  # the lease of the dead runs out
        journal = world.journal("second")
    if not world.outputs.main:
        with _life(world, journal, Fuse()) as run:
            await run()  # type: ignore[misc]
    await asyncio.sleep(0)
    await journal.aclose()
    return bool(fuse.struck_at)


@pytest.mark.parametrize("blow", ["kill", "cancel", "fail"])
def test_a_blow_at_every_await_point_loses_nothing_and_pays_nothing_twice_but_what_was_in_flight(
    tmp_path: Path, blow: Blow
) -> None:
    for at in itertools.count(1):
        world = World(tmp_path / f"{at}.db")
        fuse = Fuse(at, blow)
        struck = asyncio.run(_struck_once(world, fuse))
        if not struck:
            break
        found = world.audit()
        told = f"{blow} at point {at}, {fuse.struck_at}"
        assert found.problems == [], told
        assert (found.drift, found.paid_twice, len(world.outputs.main)) == (0, 0, 1), told
        in_flight = 1 if blow == "kill" else 0
        assert found.repeats <= max(in_flight, fuse.struck_at == "while the request is in flight"), told
    assert at > 30


def test_without_a_blow_every_request_has_its_attempt(tmp_path: Path) -> None:
    world = World(tmp_path / "journal.db")
    assert not asyncio.run(_struck_once(world, Fuse()))
    found = world.audit()
    assert (found.problems, found.repeats, found.requests) == ([], 0, 8)
    assert found.classes == {"billed": 4, "failed": 2, "in_doubt": 2}
