"""What must hold of an account."""

from __future__ import annotations

from tests.runners.account import ANSWERED, Account
from tests.runners.shape import Shape

__all__ = ["kept", "paid_once", "undisturbed"]


def kept(shape: Shape, account: Account) -> None:
    """What must hold on every runner, whatever happened."""
    assert account.outputs + account.dead_letters == shape.total
    assert account.exact
    assert account.seq_gapless
    assert account.wrong_places == 0
    assert account.drift == 0
    assert account.dropped == 0
    assert sum(account.classes.get(spend, 0) for spend in ANSWERED) == shape.answers


def undisturbed(shape: Shape, account: Account) -> None:
    """What must hold when nothing went wrong but at the endpoint."""
    kept(shape, account)
    assert account.repeats == 0
    assert account.replayed == 0


def paid_once(shape: Shape, account: Account) -> None:
    """What must hold when a bundle failed or a worker was killed: only what was in flight is paid again."""
    kept(shape, account)
    assert account.replayed > 0
    assert account.repeats <= shape.max_in_flight
    assert account.unexplained == 0
