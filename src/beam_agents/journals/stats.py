"""The account that a journal holds: how many requests, how they ended, what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from beam_agents.journals.attempts import CORRUPT, LOST
from beam_agents.journals.record import EVERYTHING, JournalReader, JournalRecord, RecordFilter
from beam_agents.values import TokenUsage

__all__ = ["JournalStats", "Tally", "stats"]


_NO_TOKENS = TokenUsage(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests, counted.

    Attributes:
        attempts: all of them; the sum of the next four.
        answered, failed, in_doubt, waiting: by how they ended.
        lost: those in doubt whose process died.
        corrupt: those answered whose stored answer was found to be damaged.
        usage: tokens of the answered ones whose usage is known.
        usage_unknown: answered ones whose usage is not.
        stored_bytes: size of the stored answers.
    """

    attempts: int = 0
    answered: int = 0
    failed: int = 0
    in_doubt: int = 0
    waiting: int = 0
    lost: int = 0
    corrupt: int = 0
    usage: TokenUsage = _NO_TOKENS
    usage_unknown: int = 0
    stored_bytes: int = 0

    def with_record(self, record: JournalRecord) -> Tally:
        """The tally with one more request."""
        answered = record.outcome == "answered"
        return Tally(
            attempts=self.attempts + 1,
            answered=self.answered + answered,
            failed=self.failed + (record.outcome == "failed"),
            in_doubt=self.in_doubt + (record.outcome == "in_doubt"),
            waiting=self.waiting + (record.outcome == "waiting"),
            lost=self.lost + (record.error_type == LOST),
            corrupt=self.corrupt + (record.error_type == CORRUPT),
            usage=self.usage if record.usage is None else self.usage + record.usage,
            usage_unknown=self.usage_unknown + (answered and record.usage is None),
            stored_bytes=self.stored_bytes + record.stored_bytes,
        )


@dataclass(frozen=True, slots=True)
class JournalStats:
    """What a journal holds.

    Attributes:
        calls: how many different calls.
        total: all requests.
        by_model: requests by scope, kind and model, in that order.
        oldest_ms, newest_ms: when the first and the last request began; `None` without any.
        size_bytes: what the journal takes where it is kept.
    """

    calls: int
    total: Tally
    by_model: tuple[tuple[str, str, str, Tally], ...]
    oldest_ms: int | None
    newest_ms: int | None
    size_bytes: int


async def stats(
    reader: JournalReader,
    where: RecordFilter = EVERYTHING,
    *,
    also: Callable[[JournalRecord], None] | None = None,
) -> JournalStats:
    """Count the records that `where` means. Reads all of them, but no answers; `also` is shown each."""
    tallies: dict[tuple[str, str, str], Tally] = {}
    calls: set[tuple[str, str]] = set()
    total, oldest, newest = Tally(), None, None
    async for record in reader.records(where):
        if also is not None:
            also(record)
        call = record.call
        calls.add((call.scope, call.call_id))
        group = (call.scope, call.kind, call.model_id)
        tallies[group] = tallies.get(group, Tally()).with_record(record)
        total = total.with_record(record)
        oldest = record.began_ms if oldest is None else min(oldest, record.began_ms)
        newest = max(newest or 0, record.began_ms)
    by_model = tuple((*group, tallies[group]) for group in sorted(tallies))
    return JournalStats(len(calls), total, by_model, oldest, newest, await reader.size_bytes())
