"""The circuit breaker by itself: states, permits, stragglers, lost trials, threads, a model of it."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from beam_agents.errors import CircuitOpenError
from beam_agents.model import CircuitBreaker, CircuitState, circuit_breaker_for, reset_circuit_breakers

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


def breaker(threshold: int = 3, cooldown_ms: int = 1_000, **more: int) -> CircuitBreaker:
    return CircuitBreaker(endpoint="https://llm.example", threshold=threshold, cooldown_ms=cooldown_ms, **more)


def tripped(now_ms: int = 0, **numbers: int) -> CircuitBreaker:
    made = breaker(**numbers)
    for _ in range(made.threshold):
        made.record_failure(now_ms)
    assert made.state is OPEN
    return made


def refused(made: CircuitBreaker, now_ms: int) -> CircuitOpenError:
    with pytest.raises(CircuitOpenError) as caught:
        made.before_call(now_ms)
    return caught.value


# Counting


def test_the_failure_that_reaches_the_threshold_opens():
    made = breaker(threshold=3)
    for _ in range(2):
        made.before_call(0).record_failure(0)
        assert made.state is CLOSED
    made.before_call(0).record_failure(0)
    assert made.state is OPEN


def test_a_success_resets_the_run_of_failures():
    made = breaker(threshold=2)
    for _ in range(10):
        made.before_call(0).record_failure(0)
        made.before_call(0).record_success()
    assert made.state is CLOSED


def test_a_neutral_outcome_neither_counts_nor_resets():
    made = breaker(threshold=2)
    made.before_call(0).record_failure(0)
    for _ in range(10):
        made.before_call(0).release()
    assert made.state is CLOSED
    made.before_call(0).record_failure(0)
    assert made.state is OPEN


def test_a_permit_reports_once():
    made = breaker(threshold=2)
    permit = made.before_call(0)
    permit.record_failure(0)
    permit.record_failure(0)
    permit.record_success()
    permit.release()
    assert made.state is CLOSED
    made.before_call(0).record_failure(0)
    assert made.state is OPEN


def test_leaving_the_block_unreported_is_neutral_even_with_an_error():
    made = breaker(threshold=1)
    with pytest.raises(KeyError), made.before_call(0):
        raise KeyError
    assert made.state is CLOSED


# Open and half-open


def test_an_open_circuit_says_when_the_next_trial_is_due():
    made = tripped(now_ms=5_000, cooldown_ms=1_000)
    assert refused(made, 5_400).retry_in_ms == 600
    assert refused(made, 5_999).retry_in_ms == 1
    assert refused(made, 5_999).endpoint == "https://llm.example"
    assert made.state is OPEN
    assert made.before_call(6_000).is_trial


def test_while_a_trial_is_under_way_everybody_else_is_refused():
    made = tripped(cooldown_ms=1_000)
    made.before_call(1_000)
    assert made.state is HALF_OPEN
    assert refused(made, 1_000).retry_in_ms is None
    assert "due" not in str(refused(made, 500_000))


def test_a_successful_trial_closes_and_forgets_the_failures():
    made = tripped(threshold=2, cooldown_ms=1_000)
    made.before_call(1_000).record_success()
    assert made.state is CLOSED
    made.before_call(1_000).record_failure(1_000)
    assert made.state is CLOSED


def test_a_failed_trial_opens_again_with_a_new_cooldown():
    made = tripped(cooldown_ms=1_000)
    made.before_call(1_500).record_failure(1_700)
    assert refused(made, 2_699).retry_in_ms == 1
    assert made.before_call(2_700).is_trial


def test_a_trial_without_verdict_leaves_the_next_caller_the_next_trial_at_once():
    made = tripped(cooldown_ms=1_000)
    for _ in range(3):
        with made.before_call(1_000) as permit:
            assert permit.is_trial
        assert made.state is OPEN
    assert made.before_call(1_000).is_trial


def test_a_trial_that_never_reports_counts_as_lost_and_is_powerless_afterwards():
    made = tripped(cooldown_ms=1_000, trial_timeout_ms=5_000)
    lost = made.before_call(1_000)
    assert refused(made, 5_999).retry_in_ms is None
    second = made.before_call(6_000)
    assert second.is_trial
    lost.record_failure(6_000)
    lost.release()
    assert made.state is HALF_OPEN
    second.record_success()
    assert made.state is CLOSED


def test_a_lost_trial_is_given_the_longer_of_cooldown_and_trial_timeout():
    made = tripped(cooldown_ms=9_000, trial_timeout_ms=10)
    made.before_call(9_000)
    assert refused(made, 17_999).retry_in_ms is None
    assert made.before_call(18_000).is_trial


def test_a_trial_may_take_ten_minutes_by_default():
    made = tripped(cooldown_ms=1_000)
    made.before_call(1_000)
    refused(made, 600_999)
    assert made.before_call(601_000).is_trial


def test_a_cooldown_of_zero_lets_a_trial_through_at_once():
    made = tripped(cooldown_ms=0)
    assert made.before_call(0).is_trial


def test_asking_whether_it_refuses_takes_no_permit():
    made = tripped(cooldown_ms=1_000)
    assert made.refuses(999)
    assert not made.refuses(1_000)
    assert made.state is OPEN
    made.before_call(1_000)
    assert made.refuses(1_000)
    made.record_success()
    assert not made.refuses(1_000)


# Stragglers


@pytest.mark.parametrize("report", ["record_success", "record_failure", "release"])
def test_a_straggler_from_before_the_trip_is_powerless(report):
    def tell(permit):
        permit.record_failure(2_000) if report == "record_failure" else getattr(permit, report)()

    made = breaker(threshold=1, cooldown_ms=1_000)
    early = [made.before_call(0) for _ in range(4)]
    made.before_call(0).record_failure(0)
    tell(early[0])
    assert made.state is OPEN
    assert refused(made, 999).retry_in_ms == 1
    trial = made.before_call(1_000)
    tell(early[1])
    assert made.state is HALF_OPEN
    trial.record_success()
    tell(early[2])
    assert made.state is CLOSED
    made.before_call(3_000).record_failure(3_000)
    tell(early[3])
    assert refused(made, 3_999).retry_in_ms == 1


def test_hand_fed_outcomes_cannot_close_or_prolong_an_open_circuit():
    made = tripped(cooldown_ms=1_000)
    made.record_success()
    made.record_failure(900)
    assert made.state is OPEN
    assert made.before_call(1_000).is_trial
    made.record_failure(1_000)
    assert made.state is OPEN


# A clock that is set back


def test_a_clock_set_back_costs_one_cooldown_at_most():
    made = tripped(now_ms=10_000_000, cooldown_ms=1_000)
    assert refused(made, 0).retry_in_ms == 1_000
    assert made.before_call(1_000).is_trial


def test_a_clock_set_back_does_not_keep_a_lost_trial_for_ever():
    made = tripped(now_ms=10_000_000, cooldown_ms=1_000, trial_timeout_ms=5_000)
    made.before_call(10_001_000)
    refused(made, 0)
    assert made.before_call(5_000).is_trial


# Threads and loops


def test_many_threads_with_loops_of_their_own_get_exactly_one_trial():
    threads = 32
    for _ in range(5):
        made = tripped(cooldown_ms=1_000)
        start = threading.Barrier(threads)
        permits, refusals = [], []

        async def ask(made=made, permits=permits, refusals=refusals):
            try:
                permits.append(made.before_call(1_000))
            except CircuitOpenError as error:
                refusals.append(error)

        def run(start=start, ask=ask):
            start.wait(10)
            asyncio.run(ask())

        running = [threading.Thread(target=run) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(10)
        assert (len(permits), len(refusals)) == (1, threads - 1)
        permits[0].record_success()
        assert made.state is CLOSED


def test_failures_from_many_threads_are_all_counted():
    made = breaker(threshold=400)
    start = threading.Barrier(8)

    def fail():
        start.wait(10)
        for _ in range(50):
            made.before_call(0).record_failure(0)

    running = [threading.Thread(target=fail) for _ in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(10)
    assert made.state is OPEN


async def test_fifty_callers_in_one_loop_get_exactly_one_trial():
    made = tripped(cooldown_ms=1_000)

    async def ask() -> bool:
        try:
            return made.before_call(1_000).is_trial
        except CircuitOpenError:
            return False

    assert sum(await asyncio.gather(*(ask() for _ in range(50)))) == 1


# Construction and the singleton


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0},
        {"threshold": True},
        {"threshold": 2.0},
        {"cooldown_ms": -1},
        {"cooldown_ms": float("nan")},
        {"trial_timeout_ms": 0},
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        breaker(**wrong)


@pytest.fixture
def registry():
    reset_circuit_breakers()
    yield
    reset_circuit_breakers()


@pytest.mark.usefixtures("registry")
def test_one_breaker_per_endpoint_in_a_process():
    first = circuit_breaker_for("https://a", threshold=1)
    assert circuit_breaker_for("https://a", threshold=1) is first
    other = circuit_breaker_for("https://b", threshold=1)
    first.record_failure(0)
    assert (first.state, other.state) == (OPEN, CLOSED)
    reset_circuit_breakers()
    assert circuit_breaker_for("https://a").state is CLOSED


@pytest.mark.usefixtures("registry")
def test_the_first_caller_s_numbers_hold_and_others_are_told(caplog):
    first = circuit_breaker_for("https://a", threshold=3, cooldown_ms=50)
    with caplog.at_level(logging.WARNING):
        assert circuit_breaker_for("https://a", threshold=4, cooldown_ms=50) is first
    assert first.threshold == 3
    assert "keeps threshold=3" in caplog.text


def test_opening_and_closing_are_logged_with_the_endpoint(caplog):
    with caplog.at_level(logging.WARNING):
        made = tripped(cooldown_ms=1_000)
        made.before_call(1_000).record_success()
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "circuit_opened endpoint=https://llm.example failures=3 for_ms=1000",
        "circuit_closed endpoint=https://llm.example open_ms=1000",
    ]


# A model of it, written independently: eras instead of generations


class BreakerAgainstModel(RuleBasedStateMachine):
    """Any order of calls, outcomes and time, compared with a model that keeps explicit eras."""

    @initialize(threshold=st.integers(1, 3), cooldown=st.integers(0, 20), timeout=st.integers(1, 40))
    def begin(self, threshold, cooldown, timeout):
        self.made = breaker(threshold, cooldown, trial_timeout_ms=timeout)
        self.threshold, self.cooldown, self.lost_after = threshold, cooldown, max(cooldown, timeout)
        self.now = 1_000
        self.mode, self.era, self.run = "closed", object(), 0
        self.opened = self.trial_began = 0
        self.out = []

    def enter(self, mode):
        self.mode, self.era = mode, object()

    @rule(ms=st.integers(0, 30))
    def time_passes(self, ms):
        self.now += ms

    @rule()
    def call(self):
        ready = (
            self.mode == "closed"
            or (self.mode == "open" and self.now >= self.opened + self.cooldown)
            or (self.mode == "half_open" and self.now >= self.trial_began + self.lost_after)
        )
        assert self.made.refuses(self.now) is not ready
        if not ready:
            refused(self.made, self.now)
            return
        permit = self.made.before_call(self.now)
        if self.mode != "closed":
            self.trial_began = self.now
            self.enter("half_open")
        assert permit.is_trial is (self.mode == "half_open")
        self.out.append((permit, self.era))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=st.sampled_from(["success", "failure", "neutral"]), again=st.booleans())
    def report(self, data, outcome, again):
        permit, era = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        for _ in range(1 + again):
            if outcome == "success":
                permit.record_success()
            elif outcome == "failure":
                permit.record_failure(self.now)
            else:
                permit.release()
        if era is not self.era:
            return
        if outcome == "success":
            self.run = 0
            if self.mode == "half_open":
                self.enter("closed")
        elif outcome == "failure":
            self.run += 1
            if self.mode == "half_open" or self.run >= self.threshold:
                self.opened = self.now
                self.enter("open")
        elif self.mode == "half_open":
            self.enter("open")

    @invariant()
    def states_agree(self):
        if hasattr(self, "made"):
            assert self.made.state.value == self.mode


BreakerAgainstModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestBreakerAgainstModel = BreakerAgainstModel.TestCase
