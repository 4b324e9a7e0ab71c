"""`postgresql://HOST/DATABASE`: a journal beside one's own data, for many hosts."""

from beam_agents.journals.postgresql.reader import PostgresqlReader
from beam_agents.journals.postgresql.store import PostgresqlStore

__all__ = ["PostgresqlReader", "PostgresqlStore"]
