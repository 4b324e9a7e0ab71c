"""What a check of the doctor says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Finding", "Health", "Patient"]


class Health(Enum):
    """How good a finding is."""

    GOOD = "good"
    OPTIONAL = "optional"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Patient:
    """What the user wants to work."""

    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one part; `remedy` says what to do when it is not good."""

    part: str
    health: Health
    said: str
    remedy: str = ""
