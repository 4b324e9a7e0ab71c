"""Which fault, if any, befalls a request: seeded, and independent of the order in which requests arrive."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Fault", "FaultPlan"]


class Fault(StrEnum):
    """What goes wrong with one request."""

    RATE_LIMIT = "rate_limit"
    """429 with a Retry-After header; the model is not asked."""
    UNAVAILABLE = "unavailable"
    """503 with an HTML body; the model is not asked."""
    RESET = "reset"
    """The connection is reset before the model is asked."""
    LOST_ANSWER = "lost_answer"
    """The model answers, and the connection is reset instead of delivering it."""
    STALL = "stall"
    """The answer comes, but late."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How often each fault happens; the shares add up to at most 1.

    Equal plans treat the `n`-th request with a given body alike, whatever else arrives meanwhile. No body
    suffers more than `most_in_a_row` faults in a row, so that a patient client gets through.
    """

    rate_limit: float = 0.0
    unavailable: float = 0.0
    reset: float = 0.0
    lost_answer: float = 0.0
    stall: float = 0.0
    retry_after_s: int = 1
    stall_s: float = 2.0
    most_in_a_row: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        shares = [getattr(self, fault.value) for fault in Fault]
        if any(not 0 <= share <= 1 for share in shares) or sum(shares) > 1:
            raise ValueError(f"shares of faults must lie between 0 and 1 and add up to at most 1, not {shares}")

    def fault(self, body: bytes, earlier: int) -> Fault | None:
        """What befalls a request with this body after `earlier` requests with the same."""
        if earlier and earlier % (self.most_in_a_row + 1) == self.most_in_a_row:
            return None
        drawn = random.Random(b"%d:%d:%b" % (self.seed, earlier, body)).random()
        for fault in Fault:
            drawn -= getattr(self, fault.value)
            if drawn < 0:
                return fault
        return None
