"""`beam-agents journal prune`: calls that are deleted, and will be paid again when they are asked for again."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from beam_agents.cli.complaint import Complaint
from beam_agents.cli.journal.access import with_reader
from beam_agents.journals import JournalReader, PruneReport, RecordFilter
from beam_agents.journals.record import EVERYTHING

__all__ = ["moment_of", "prune"]

_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([mhdw])")


def prune(uri: str, *, before_ms: int | None, where: RecordFilter) -> PruneReport:
    """Delete the calls whose last change is older than `before_ms`, or those that `where` means.

    Raises:
        Complaint: when neither or both are given, or the journal cannot be changed.
    """
    if (before_ms is None) == (where == EVERYTHING):
        raise Complaint(
            "say which calls to delete: either by age with --older-than, or by --namespace, --entity, --seq and --call"
        )

    async def delete(reader: JournalReader) -> PruneReport:
        return await (reader.forget(where) if before_ms is None else reader.prune(before_ms))

    return with_reader(uri, delete)


def moment_of(older_than: str | None, now_ms: int) -> int | None:
    """From an age such as `12h`, `30d` or `4w`, or a date such as `2026-01-31`, to a moment; `None` for `None`.

    Raises:
        Complaint: for anything else.
    """
    if older_than is None:
        return None
    age = _AGE.fullmatch(older_than.strip().lower())
    if age is not None:
        return max(0, now_ms - round(float(age[1]) * _UNIT_MS[age[2]]))
    try:
        date = datetime.fromisoformat(older_than.strip())
    except ValueError:
        raise Complaint(
            f"--older-than must be an age such as 12h, 30d or 4w, or a date such as 2026-01-31, not {older_than!r}"
        ) from None
    return round((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)
