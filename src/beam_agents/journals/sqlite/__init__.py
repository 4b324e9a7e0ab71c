"""`sqlite:///PATH`: a journal in one file, for all processes of one host."""

from beam_agents.journals.sqlite.reader import SqliteReader
from beam_agents.journals.sqlite.store import SqliteStore

__all__ = ["SqliteReader", "SqliteStore"]
