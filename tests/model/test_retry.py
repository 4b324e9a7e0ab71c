"""Which errors are retried, how long the waits are, and which policies make sense."""

from __future__ import annotations

import pickle
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.errors import (
    BudgetExceeded,
    CircuitOpenError,
    ConnectionBroken,
    EndpointUnreachable,
    OutputSchemaError,
    ProviderError,
    ProviderRequestError,
    ProviderTimeout,
    RateLimitError,
    ResponseDecodeError,
    ServerError,
    UnreadableAnswer,
)
from beam_agents.model import RetryPolicy
from beam_agents.model.retry import is_retryable


class Drawn:
    """An rng that always draws the given share of its range, and keeps what it was asked."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.asked: list[tuple[float, float]] = []

    def uniform(self, a: float, b: float) -> float:
        self.asked.append((a, b))
        return a + (b - a) * self.share


class VendorRateLimit(RateLimitError):
    pass


# Which errors


@pytest.mark.parametrize(
    "error",
    [
        RateLimitError(),
        ServerError(),
        ProviderTimeout(),
        VendorRateLimit(),
        EndpointUnreachable(),
        ConnectionBroken(),
        UnreadableAnswer(),
    ],
)
def test_the_three_families_and_their_subclasses_are_retried(error):
    assert is_retryable(error)


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("429 rate limit, please retry"),
        ProviderRequestError(400),
        ResponseDecodeError("x"),
        OutputSchemaError("x", reason="refused"),
        CircuitOpenError("e"),
        BudgetExceeded(limit=1, consumed=2),
        TimeoutError(),
        ConnectionError(),
        KeyboardInterrupt(),
    ],
)
def test_everything_else_is_not_whatever_its_message_says(error):
    assert not is_retryable(error)


# How long


def test_the_delay_is_drawn_between_zero_and_the_clamped_exponential():
    rng, policy = Drawn(0.5), RetryPolicy(9, 100, 700)
    delays = [policy.delay_ms(attempt, ServerError(500), rng) for attempt in (1, 2, 3, 4, 5)]
    assert rng.asked == [(0, 100), (0, 200), (0, 400), (0, 700), (0, 700)]
    assert delays == [50, 100, 200, 350, 350]


@given(
    base=st.floats(0, 1e300),
    factor=st.floats(1, 1e8),
    attempt=st.one_of(st.integers(1, 80), st.sampled_from([1_000, 1_025, 2_000, 10**6, 10**30])),
)
def test_pre_jitter_is_exactly_the_formula_for_any_attempt(base, factor, attempt):
    most = base * factor
    found = RetryPolicy(1, base, most).pre_jitter_ms(attempt)
    exact = min(Fraction(base) * 2 ** min(attempt - 1, 4_000), Fraction(most)) if base else 0
    assert found == exact


def test_the_smallest_base_still_grows_after_a_thousand_attempts():
    assert RetryPolicy(2_000, 5e-324, 10_000).pre_jitter_ms(1_075) == 1.0
    assert RetryPolicy(2_000, 100, 10_000).pre_jitter_ms(1_000) == 10_000
    assert RetryPolicy(2_000, 0, 10_000).pre_jitter_ms(1_000) == 0


@pytest.mark.parametrize(
    "error", [RateLimitError(1_500), ServerError(503, retry_after_ms=1_500), VendorRateLimit(1500)]
)
def test_the_endpoint_s_wish_is_a_floor_on_every_retried_error(error):
    policy = RetryPolicy(3, 2_000, 2_000)
    assert policy.delay_ms(1, error, Drawn(0)) == 1_500
    assert policy.delay_ms(1, error, Drawn(1)) == 2_000


def test_the_maximum_does_not_lower_the_floor():
    assert RetryPolicy(3, 100, 200).delay_ms(1, RateLimitError(3_600_000), Drawn(1)) == 3_600_000


@pytest.mark.parametrize("wish", [None, 0, -1, -1e308, float("nan"), float("inf"), -float("inf"), 10**400, -(10**400)])
def test_a_wish_that_makes_no_sense_is_no_floor_and_never_raises(wish):
    error = ServerError(503)
    error.retry_after_ms = wish
    assert RetryPolicy(3, 100, 200).delay_ms(1, error, Drawn(0.5)) == 50


def test_callers_with_the_same_floor_are_spread_out_when_a_spread_is_configured():
    policy = RetryPolicy(3, 100, 200, retry_after_spread_ms=1_000)
    delays = [policy.delay_ms(1, RateLimitError(5_000), random.Random(seed)) for seed in range(20)]
    assert len(set(delays)) == 20
    assert min(delays) >= 5_000
    assert max(delays) <= 6_000


def test_the_spread_draws_nothing_without_a_wish():
    rng = Drawn(1)
    assert RetryPolicy(3, 100, 200, retry_after_spread_ms=1_000).delay_ms(1, ServerError(500), rng) == 100
    assert rng.asked == [(0, 100)]


# Which policies


@pytest.mark.parametrize("attempts", [0, -1, True, 1.0, "3", None, float("inf")])
def test_attempts_must_be_a_positive_int(attempts):
    with pytest.raises(ValueError, match="max_attempts"):
        RetryPolicy(attempts, 1, 1)


@pytest.mark.parametrize("name", ["base_ms", "max_ms", "max_elapsed_ms", "retry_after_spread_ms"])
@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), float("inf"), 10**400, True, "1", 1j])
def test_durations_must_be_finite_and_not_negative(name, value):
    with pytest.raises(ValueError, match=name):
        RetryPolicy(**{"max_attempts": 1, "base_ms": 1, "max_ms": 1, name: value})


def test_a_maximum_below_the_base_is_refused():
    with pytest.raises(ValueError, match="max_ms must not be below base_ms"):
        RetryPolicy(1, 2, 1)


def test_a_policy_is_a_value_and_travels():
    policy = RetryPolicy(3, 100, 1_000, max_elapsed_ms=60_000, retry_after_spread_ms=5)
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert hash(policy) == hash(RetryPolicy(3, 100, 1_000, max_elapsed_ms=60_000, retry_after_spread_ms=5))
    with pytest.raises(AttributeError):
        policy.max_attempts = 4
