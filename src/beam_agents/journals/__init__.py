"""Journals: the answers of calls, kept outside the Beam bundle, so that a failed bundle's retry is free."""

from beam_agents.journals.attempts import CORRUPT, LOST
from beam_agents.journals.memory import reset_memory_journals
from beam_agents.journals.opening import open_journal, open_reader
from beam_agents.journals.record import JournalReader, JournalRecord, PruneReport, RecordFilter
from beam_agents.journals.record_json import record_to_json
from beam_agents.journals.stats import JournalStats, Tally, stats
from beam_agents.journals.stored import StoredJournal

__all__ = [
    "CORRUPT",
    "LOST",
    "JournalReader",
    "JournalRecord",
    "JournalStats",
    "PruneReport",
    "RecordFilter",
    "StoredJournal",
    "Tally",
    "open_journal",
    "open_reader",
    "record_to_json",
    "reset_memory_journals",
    "stats",
]
