"""What an error says, as text that a record can carry: no error, however odd, may fail the bundle by its words."""

from __future__ import annotations

from beam_agents.providers.redaction import without_keys
from beam_agents.values import well_formed

__all__ = ["reason_of", "said_by"]


def said_by(error: BaseException) -> str:
    """The error's message, what looks like a provider's key masked; its class's name when it cannot be told."""
    try:
        said = str(error)
    except Exception:
        return type(error).__name__
    return without_keys(well_formed(said))


def reason_of(error: BaseException) -> str | None:
    """The error's machine-readable reason, or `None`. Never raises."""
    try:
        reason = getattr(error, "reason", None)
    except Exception:
        return None
    return well_formed(reason) if isinstance(reason, str) else None
