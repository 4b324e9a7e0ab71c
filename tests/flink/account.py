"""What a run came to: its outputs, and its account against the endpoint's own count."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Account", "read_lines", "settle"]

EPOCH_MS = 1_700_000_000_000
SPACING_MS = 40
_ENDED = ("Lost", "CancelledError")


@dataclass(frozen=True, slots=True)
class Account:
    """One row of the table.

    Attributes:
        requests: requests that the endpoint saw.
        answered: those that it answered with 200.
        repeats: answers beyond the first to the same prompt.
        undelivered: answers whose asker was gone.
        in_doubt: requests that the traces call in doubt.
        lost: those of them whose process ended before the answer was journaled, killed or shut down.
        recovered: committed calls that were answered from the journal.
        outputs, dead_letters: committed activations by kind.
        outputs_exact: every event came out exactly once, as output or dead letter.
        seq_gapless: each key's positions are 0, 1, 2, … and its state counted every answer.
        request_drift: requests of the endpoint without an attempt in the traces, and the other way round.
        token_drift: tokens of the account minus those of the endpoint for the same answers.
        wrong_times: outputs whose time is not their event's.
        late: outputs behind the watermark.
    """

    requests: int
    answered: int
    repeats: int
    undelivered: int
    in_doubt: int
    lost: int
    recovered: int
    outputs: int
    dead_letters: int
    outputs_exact: bool
    seq_gapless: bool
    request_drift: int
    token_drift: int
    wrong_times: int
    late: int


def read_lines(folder: Path) -> list[Any]:
    """The JSON lines of every committed file of a sink."""
    return [json.loads(line) for file in sorted(folder.rglob("part*")) for line in file.read_text().splitlines()]


def settle(
    events: int,
    main: Sequence[Mapping[str, Any]],
    traces: Iterable[Mapping[str, Any]],
    errors: Sequence[Mapping[str, Any]],
    served: Sequence[Mapping[str, Any]],
) -> Account:
    """Compare what the job put out with what the endpoint counted."""
    calls = [one for one in traces if one["event_type"] == "LLM_CALL"]
    calls += [one for letter in errors for one in letter["trace_events"] if one["event_type"] == "LLM_CALL"]
    answers = Counter(one["prompt"] for one in served if one["status"] == 200)
    numbers = Counter([one["n"] for one in main] + [_number(letter) for letter in errors])
    return Account(
        requests=len(served),
        answered=sum(answers.values()),
        repeats=sum(count - 1 for count in answers.values()),
        undelivered=sum(one["undelivered"] and one["status"] == 200 for one in served),
        in_doubt=sum(one["outcome"] == "in_doubt" for call in calls for one in _attempts(call)),
        lost=sum(one.get("error") in _ENDED for call in calls for one in _attempts(call)),
        recovered=sum(call["attributes"].get("beam_agents.replay") == "journal" for call in calls),
        outputs=len(main),
        dead_letters=len(errors),
        outputs_exact=numbers == Counter(range(events)),
        seq_gapless=_gapless(main, errors),
        request_drift=_request_drift(calls, served, _prompts(main, errors)),
        token_drift=_token_drift(calls, served),
        wrong_times=sum(one["time"] != EPOCH_MS + one["n"] * SPACING_MS for one in main),
        late=sum(one["late"] for one in main),
    )


def _number(letter: Mapping[str, Any]) -> int:
    number: int = json.loads(letter["event"])["n"]
    return number


def _attempts(call: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call["attributes"].get("beam_agents.attempt_log", "[]"))
    return found


def _gapless(main: Sequence[Mapping[str, Any]], errors: Sequence[Mapping[str, Any]]) -> bool:
    positions: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for one in main:
        positions[one["key"]].append((one["seq"], one["count"]))
    for letter in errors:
        positions[letter["entity_key"]].append((letter["seq"], None))
    return all(_is_gapless(sorted(found, key=lambda one: one[0])) for found in positions.values())


def _is_gapless(found: Sequence[tuple[int, int | None]]) -> bool:
    counts = [count for _, count in found if count is not None]
    return [seq for seq, _ in found] == list(range(len(found))) and counts == list(range(1, len(counts) + 1))


def _prompts(main: Sequence[Mapping[str, Any]], errors: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], str]:
    prompts = {(one["key"], one["seq"]): f"event {one['n']}" for one in main}
    return prompts | {(letter["entity_key"], letter["seq"]): f"event {_number(letter)}" for letter in errors}


def _request_drift(
    calls: Iterable[Mapping[str, Any]],
    served: Iterable[Mapping[str, Any]],
    prompts: Mapping[tuple[str, int], str],
) -> int:
    """Requests without an attempt, and attempts without a request that are not in doubt."""
    attempts: dict[str, dict[str, str]] = defaultdict(dict)
    for call in calls:
        prompt = prompts.get((call["entity_key"], call["seq"]), "?")
        attempts[prompt].update({one["id"]: one["outcome"] for one in _attempts(call)})
        answered = call["attributes"].get("beam_agents.attempt_id")
        if answered:
            attempts[prompt][answered] = "answered"
    requests = Counter(one["prompt"] for one in served)
    drift = 0
    for prompt in requests.keys() | attempts.keys():
        told, seen = attempts[prompt], requests[prompt]
        doubtful = sum(outcome == "in_doubt" for outcome in told.values())
        drift += max(0, seen - len(told)) + max(0, len(told) - doubtful - seen)
    return drift


def _token_drift(calls: Iterable[Mapping[str, Any]], served: Iterable[Mapping[str, Any]]) -> int:
    """Over the answers that the account holds, each once by the id of its request."""
    told: dict[str, tuple[int, str]] = {}
    for call in calls:
        found = call["attributes"]
        if "gen_ai.usage.input_tokens" in found:
            tokens = int(found["gen_ai.usage.input_tokens"]) + int(found["gen_ai.usage.output_tokens"])
            told[found["beam_agents.attempt_id"]] = (tokens, found.get("gen_ai.response.id", "?"))
    counted = {one["id"]: one["tokens"] for one in served if one["status"] == 200}
    return sum(abs(tokens - counted.get(answer, 0)) for tokens, answer in told.values())
