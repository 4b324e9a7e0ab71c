"""Whatever workers do, in whatever order: a journal agrees with a model of ten lines."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beam_agents.journals import open_journal, reset_memory_journals
from beam_agents.journals.stored import StoredJournal
from beam_agents.ports import CallIdentity, Intent, JournalFinding
from beam_agents.testing import ManualClock
from beam_agents.values import TokenUsage

CALLS = [CallIdentity(call_id, scope=scope, seq=1) for call_id in ("a", "b") for scope in ("s", "t")]
OWNERS = ("one", "two", "three")


class Expected:
    """What should be known of one call: each attempt as [outcome, error type, owner], and the answer that stands."""

    def __init__(self) -> None:
        self.attempts: list[list[str]] = []
        self.standing: tuple[int, bytes] | None = None

    def waiting(self) -> int | None:
        return next((i for i, (outcome, _, _) in enumerate(self.attempts) if outcome == "waiting"), None)

    def past(self) -> list[tuple[int, str, str]]:
        told = enumerate(self.attempts, start=1)
        return [(ordinal, outcome, error) for ordinal, (outcome, error, _) in told if outcome != "waiting"]


class JournalMachine(RuleBasedStateMachine):
    """Three workers at one journal; any of them may end, be overtaken, or report late and twice."""

    def uri(self) -> str:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock(1_000_000)
        self.place = self.uri()
        self.journals: dict[str, StoredJournal] = {owner: self.open(owner) for owner in OWNERS}
        self.expected = {call: Expected() for call in CALLS}
        self.intents: list[tuple[str, Intent]] = []

    def open(self, owner: str) -> StoredJournal:
        return open_journal(self.place, now_ms=self.clock, owner=owner)

    def run(self, awaitable: Any) -> Any:
        return self.runner.run(awaitable)

    @rule(owner=st.sampled_from(OWNERS), call=st.sampled_from(CALLS))
    def begin(self, owner: str, call: CallIdentity) -> None:
        expected, outcome = self.expected[call], self.run(self.journals[owner].begin(call))
        if expected.standing is not None:
            assert isinstance(outcome, JournalFinding)
            assert outcome.answer is not None
        elif expected.waiting() is not None:
            assert isinstance(outcome, JournalFinding)
            assert outcome.busy_for_ms is not None
        else:
            assert outcome == Intent(call, len(expected.attempts) + 1)
            expected.attempts.append(["waiting", "", owner])
            self.intents.append((owner, outcome))

    @precondition(lambda self: self.intents)
    @rule(data=st.data(), response=st.binary(max_size=40), usage=st.sampled_from([None, TokenUsage(1, 2, 3)]))
    def answer(self, data: st.DataObject, response: bytes, usage: TokenUsage | None) -> None:
        owner, intent = data.draw(st.sampled_from(self.intents))
        self.run(self.journals[owner].record_answer(intent, response, usage))
        expected = self.expected[intent.call]
        attempt = expected.attempts[intent.ordinal - 1]
        if attempt[0] != "answered":
            attempt[:2] = ["answered", ""]
            expected.standing = expected.standing or (intent.ordinal, response)

    @precondition(lambda self: self.intents)
    @rule(data=st.data(), error=st.sampled_from([("failed", "ServerError"), ("in_doubt", "ProviderTimeout")]))
    def fail(self, data: st.DataObject, error: tuple[Any, str]) -> None:
        owner, intent = data.draw(st.sampled_from(self.intents))
        self.run(self.journals[owner].record_failure(intent, *error))
        attempt = self.expected[intent.call].attempts[intent.ordinal - 1]
        if attempt[0] == "waiting" or attempt[1] == "Lost":
            attempt[:2] = list(error)

    @rule(owner=st.sampled_from(OWNERS))
    def end_and_come_back(self, owner: str) -> None:
        self.run(self.journals[owner].aclose())
        self.journals[owner] = self.open(owner)
        for expected in self.expected.values():
            for attempt in expected.attempts:
                if attempt[0] == "waiting" and attempt[2] == owner:
                    attempt[:2] = ["in_doubt", "Lost"]

    @invariant()
    def all_see_the_same(self) -> None:
        for call, expected in self.expected.items():
            for journal in self.journals.values():
                finding = self.run(journal.find(call))
                assert [(one.ordinal, one.outcome, one.error_type) for one in finding.past] == expected.past()
                found = finding.answer and (finding.answer.ordinal, finding.answer.response)
                assert found == expected.standing
                is_busy = expected.waiting() is not None and expected.standing is None
                assert (finding.busy_for_ms is not None) == is_busy

    def teardown(self) -> None:
        for journal in self.journals.values():
            self.run(journal.aclose())
        self.runner.close()


class MemoryMachine(JournalMachine):
    def uri(self) -> str:
        reset_memory_journals()
        return "memory://model"


class SqliteMachine(JournalMachine):
    def uri(self) -> str:
        self.directory = tempfile.TemporaryDirectory()
        return f"sqlite:///{self.directory.name}/journal.db"

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = settings(
    max_examples=10, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
