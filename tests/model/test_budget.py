"""The token meter of one activation."""

from __future__ import annotations

import pytest

from beam_agents.errors import BudgetExceeded
from beam_agents.model import TokenBudget


def test_it_trips_on_strictly_more_than_its_limit():
    budget = TokenBudget(100)
    budget.charge(60)
    budget.charge(40)
    assert budget.consumed == 100
    with pytest.raises(BudgetExceeded) as caught:
        budget.charge(1)
    assert (caught.value.limit, caught.value.consumed) == (100, 101)


def test_it_stays_tripped_and_goes_on_counting():
    budget = TokenBudget(10)
    with pytest.raises(BudgetExceeded):
        budget.charge(11)
    with pytest.raises(BudgetExceeded):
        budget.charge(0)
    with pytest.raises(BudgetExceeded):
        budget.charge(5)
    assert budget.consumed == 16


def test_a_limit_of_zero_allows_only_free_answers():
    budget = TokenBudget(0)
    budget.charge(0)
    with pytest.raises(BudgetExceeded):
        budget.charge(1)


@pytest.mark.parametrize("limit", [-1, True, 1.5, float("inf"), None, "5"])
def test_a_limit_that_makes_no_sense_is_refused(limit):
    with pytest.raises(ValueError, match="limit must be an int of at least 0"):
        TokenBudget(limit)


@pytest.mark.parametrize("tokens", [-1, False, 0.5, None])
def test_a_charge_that_makes_no_sense_is_refused_and_not_counted(tokens):
    budget = TokenBudget(5)
    with pytest.raises(ValueError, match="tokens must be an int of at least 0"):
        budget.charge(tokens)
    assert budget.consumed == 0
