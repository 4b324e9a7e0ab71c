"""The token meter of one activation."""

from __future__ import annotations

from beam_agents.errors import BudgetExceeded

__all__ = ["TokenBudget"]


class TokenBudget:
    """Counts tokens up to `limit`; trips on strictly more, and stays tripped.

    Raises:
        ValueError: when `limit` is not a non-negative int.
    """

    def __init__(self, limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise ValueError(f"limit must be an int of at least 0, not {limit!r}")
        self.limit = limit
        self._consumed = 0

    @property
    def consumed(self) -> int:
        """Tokens charged so far."""
        return self._consumed

    def charge(self, tokens: int) -> None:
        """Add `tokens`. Raises `BudgetExceeded` when more than `limit` are consumed by now."""
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise ValueError(f"tokens must be an int of at least 0, not {tokens!r}")
        self._consumed += tokens
        if self._consumed > self.limit:
            raise BudgetExceeded(limit=self.limit, consumed=self._consumed)
