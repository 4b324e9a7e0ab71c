"""What is run: events, the agent, and whether an output is right.

A later prompt holds the earlier answers, so that one answer that changed would change everything after it. A key's
second event builds on its first by `ctx.state`; some activations draw a number in a journaled step, some ask two
questions at once.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.chaos.endpoint import prompt_digest

__all__ = ["Event", "OneOff", "chain", "events", "messages", "step_log", "wrong_with"]

Event = dict[str, Any]


class OneOff(Exception):
    """A failure of the agent itself that happens once."""


def events(keys: int, seed: str) -> list[Event]:
    """One event for each key, a second one for every fifth; 1 to 5 calls each."""
    rng = random.Random(f"{seed}/events")
    made: list[Event] = []
    for number in range(keys):
        for index in range(2 if number % 5 == 0 else 1):
            made.append(
                {
                    "key": f"key-{number:03}",
                    "index": index,
                    "calls": rng.randint(1, 5),
                    "drawn": rng.random() < 0.3,
                    "paired": rng.random() < 0.3,
                    "fails": rng.choice(("early", "late", "")) if rng.random() < 0.25 else "",
                }
            )
    return made


def messages(
    event: Mapping[str, Any], call: int, heard: Iterable[str], before: str, drawn: str
) -> list[dict[str, str]]:
    """The prompt of an event's `call`-th question, after what was heard so far."""
    subject = f"{event['key']}/{event['index']} question {call}"
    return [{"role": "user", "content": "\n".join((subject, before, drawn, *heard))}]


async def chain(ctx: Any, event: Event, log: Path, fails: bool) -> dict[str, Any]:
    """The agent."""
    before = ctx.state or ""
    drawn = str(await ctx.step("draw", draw, str(log), event["key"], event["index"])) if event["drawn"] else ""
    _fail_once(log, event, "early", fails)
    heard: list[str] = []
    while len(heard) < event["calls"]:
        pair = event["paired"] and event["calls"] - len(heard) >= 2
        asked = [messages(event, len(heard) + n, heard, before, drawn) for n in range(2 if pair else 1)]
        results = await asyncio.gather(*(ctx.complete(one, temperature=0) for one in asked))
        heard += [result.text for result in results]
    _fail_once(log, event, "late", fails)
    ctx.state = heard[-1]
    return {"key": event["key"], "index": event["index"], "before": before, "drawn": drawn, "heard": heard}


def draw(log: str, key: str, index: int) -> str:
    """A side effect with another result each time; leaves its trace in a file."""
    number = os.urandom(6).hex()
    append(Path(log), f"{key}/{index} {number}\n")
    return number


def step_log(directory: Path) -> Path:
    """Where steps leave their traces."""
    return directory / "steps.log"


def append(path: Path, text: str) -> None:
    """Add to a file in one write, so that a kill leaves whole lines."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def wrong_with(output: Mapping[str, Any], event: Event, answers: Mapping[str, str], drawn: set[str]) -> str:
    """What is wrong with an output; empty when it is right.

    `answers` are the prompts' digests by the answers that the endpoint gave to them.
    """
    if len(output["heard"]) != event["calls"]:
        return f"{len(output['heard'])} answers instead of {event['calls']}"
    if event["drawn"] and output["drawn"] not in drawn:
        return "its step's result was never drawn"
    known = 0
    while known < event["calls"]:
        pair = event["paired"] and event["calls"] - known >= 2
        for n in range(2 if pair else 1):
            prompt = messages(event, known + n, output["heard"][:known], output["before"], output["drawn"])
            if answers.get(output["heard"][known + n]) != prompt_digest(prompt):
                return f"answer {known + n} was never given to its question"
        known += 2 if pair else 1
    return ""


def _fail_once(log: Path, event: Event, when: str, fails: bool) -> None:
    if fails and event["fails"] == when:
        try:
            (log.parent / f"failed-{event['key']}-{event['index']}").touch(exist_ok=False)
        except FileExistsError:
            return
        raise OneOff(f"fails once, {when}")
