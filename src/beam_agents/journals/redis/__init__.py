"""`redis://HOST:PORT/DB`: a journal on a Redis server, for many hosts."""

from beam_agents.journals.redis.reader import RedisReader
from beam_agents.journals.redis.store import RedisStore

__all__ = ["RedisReader", "RedisStore"]
