"""What a replay says of its calls and of itself."""

from __future__ import annotations

from beam_agents.activation.replay import Replay, ReplayedCall
from beam_agents.journals import CORRUPT, JournalRecord

__all__ = ["EXIT_CODES", "source_words", "verdict_words"]

EXIT_CODES = {"reproduced": 0, "diverged": 1, "not_in_journal": 3}
"""Exit code of each verdict."""


def verdict_words(told: Replay) -> str:
    """`reproduced`, `diverged at call 2 (messages[3].content)`, or `not in the journal: …`."""
    deviation = told.deviation
    if deviation is not None and deviation.source != "missing":
        changed = ", ".join(deviation.changed) or f"another {deviation.kind}"
        return f"diverged at {deviation.kind} {deviation.step_index} ({changed})"
    if deviation is not None:
        return f"not in the journal: {deviation.kind} {deviation.step_index} ({_why_missing(deviation.record)})"
    if told.unmade:
        call = told.unmade[0].call
        return f"diverged at {call.kind} {call.step_index} (the journal knows it, this run did not come to it)"
    if not told.calls:
        return "not in the journal: nothing is known of this position, and this run asked nothing"
    return "reproduced"


def source_words(call: ReplayedCall) -> str:
    """Where the end of a call came from, for the table."""
    if call.source == "failure" and call.record is not None:
        status = "" if call.record.status is None else f" {call.record.status}"
        return f"journal: failed with {call.record.error_type}{status}"
    if call.source == "diverged":
        return "another one in the journal"
    if call.source == "missing":
        return f"not in the journal ({_why_missing(call.record)})"
    return {"journal": "journal", "stand_in": "to be paid", "activation": "this activation"}[call.source]


def _why_missing(record: JournalRecord | None) -> str:
    if record is None:
        return "never asked"
    if record.outcome == "waiting":
        return "a worker still waits for its answer"
    if record.error_type == CORRUPT:
        return "its stored answer cannot be read"
    return f"{record.outcome.replace('_', ' ')}: {record.error_type}"
