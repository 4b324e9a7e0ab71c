"""Journals: the answers of calls, kept outside the Beam bundle, so that a failed bundle's retry is free."""

from beam_agents.journals.memory import reset_memory_journals
from beam_agents.journals.opening import open_journal
from beam_agents.journals.record import JournalReader, JournalRecord, PruneReport, RecordFilter

__all__ = [
    "JournalReader",
    "JournalRecord",
    "PruneReport",
    "RecordFilter",
    "open_journal",
    "reset_memory_journals",
]
