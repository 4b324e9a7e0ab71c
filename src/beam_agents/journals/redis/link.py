"""The connection to a Redis server: made at first use, made again when it broke, secrets never shown."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha1
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_agents.errors import JournalError, JournalOpenError
from beam_agents.journals.redis.scripts import SCRIPTS
from beam_agents.journals.uri import JournalUri
from beam_agents.journals.vault import Vault
from beam_agents.ports import CallIdentity

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["OPTIONS", "Command", "RedisLink"]

OPTIONS = ("key_env", "lease_s", "name", "ttl_h")
"""The options that are ours; the others go to redis-py."""

_log = logging.getLogger(__name__)

_VERSION = 1
_TIMEOUT_S = 10.0
_DIED_UNDERWAY = (OSError, TimeoutError, RuntimeError, AttributeError)
"""What redis-py lets through when a connection dies under it: the last two from transport and writer that are gone."""
_HASHES = {name: sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in SCRIPTS.items()}


class Command(NamedTuple):
    """One script with its arguments."""

    script: str
    keys: tuple[bytes, bytes, bytes]
    arguments: tuple[Any, ...] = ()


class RedisLink:
    """Runs scripts in pipelines on one journal of one server. Bound to the loop of its first use."""

    def __init__(self, uri: JournalUri, vault: Vault, *, makes_new: bool) -> None:
        self.shown = uri.shown
        self._vault = vault
        self._makes_new = makes_new
        self._prefix = f"{{beam-agents:{uri.options.get('name', 'journal')}}}:".encode()
        self._client = _client(uri)
        self._is_open = False
        self._was_open = False

    def keys(self, call: CallIdentity) -> tuple[bytes, bytes, bytes]:
        """The keys of a call, of the leases and of the call's position."""
        place = f"{call.scope}\0{call.entity_key.hex()}\0{call.seq}".encode()
        return (
            self._prefix + f"call:{call.scope}\0{call.call_id}".encode(),
            self._prefix + b"leases",
            self._prefix + b"at:" + place,
        )

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """One reply for each command. Raises `JournalError`: then some may have been done and others not."""
        from redis.exceptions import NoScriptError

        replies: list[Any] = await self._guarded(lambda: self._send(commands))
        if any(isinstance(reply, NoScriptError) for reply in replies):
            await self._guarded(self._load_scripts)
            replies = await self._guarded(lambda: self._send(commands))
        for reply in replies:
            if isinstance(reply, Exception):
                raise await self._broken(reply) from reply
        return replies

    async def pages_of_calls(self, count: int) -> AsyncIterator[list[bytes]]:
        """The keys of all calls, some at a time; a key may come twice."""
        pattern = self._prefix.replace(b"[", rb"\[") + b"call:*"
        cursor, is_first = 0, True
        while cursor or is_first:
            found, keys = await self._guarded(partial(self._client.scan, cursor, match=pattern, count=count))
            cursor, is_first = int(found), False
            yield [_bytes(key) for key in keys]

    async def calls_at(self, call: CallIdentity) -> list[bytes]:
        """The keys of the calls at the same position as `call`."""
        ids = await self._guarded(lambda: self._client.smembers(self.keys(call)[2]))
        return sorted(self.keys(replace(call, call_id=_bytes(each).decode()))[0] for each in ids)

    async def memory_bytes(self, keys: Sequence[bytes]) -> int:
        """Memory that the server uses for these keys."""
        return sum([await self._guarded(partial(self._client.memory_usage, key)) or 0 for key in keys])

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        self._is_open = False
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    async def _guarded(self, ask: Callable[[], Any]) -> Any:
        from redis.exceptions import RedisError

        try:
            if not self._is_open:
                await self._open()
            return await ask()
        except (RedisError, *_DIED_UNDERWAY) as error:
            raise await self._broken(error) from error

    async def _send(self, commands: Sequence[Command]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.evalsha(_HASHES[command.script], len(command.keys), *command.keys, *command.arguments)
            return list(await pipeline.execute(raise_on_error=False))

    async def _open(self) -> None:
        version = await self._version()
        if int(version) > _VERSION:
            raise JournalOpenError(
                f"{self.shown} has journal version {version}, this beam-agents knows up to {_VERSION}; "
                "use the newer beam-agents, or another ?name="
            )
        if self._makes_new:
            await self._agree_on_key()
        await self._load_scripts()
        if self._makes_new and not self._was_open:
            await self._warn_unless_durable()
        self._is_open = self._was_open = True

    async def _agree_on_key(self) -> None:
        key = self._prefix + b"key_id"
        self._vault.require(_bytes(await self._client.get(key)).decode(), self.shown)
        if self._vault.key_id:
            await self._client.set(key, self._vault.key_id)

    async def _version(self) -> str:
        key = self._prefix + b"version"
        if self._makes_new:
            await self._client.setnx(key, str(_VERSION))
        version = _bytes(await self._client.get(key)).decode()
        if not version:
            raise JournalOpenError(f"{self.shown}: there is no journal of this name; see ?name=")
        return version

    async def _load_scripts(self) -> None:
        for text in SCRIPTS.values():
            await self._client.script_load(text)

    async def _warn_unless_durable(self) -> None:
        from redis.exceptions import ResponseError

        try:
            kept = await self._client.config_get("appendonly")
        except ResponseError:
            return
        if kept.get("appendonly") in ("no", b"no"):
            _log.warning("%s keeps nothing over a restart of the server; set appendonly yes there", self.shown)

    async def _broken(self, error: BaseException) -> JournalError:
        from redis.exceptions import AuthenticationError

        self._is_open = False
        await self._client.connection_pool.disconnect()
        if isinstance(error, AuthenticationError):
            return JournalOpenError(f"{self.shown} refuses user or password; check the URI: {error}")
        if not self._was_open:
            return JournalOpenError(f"{self.shown} cannot be opened; is the server up, and the address right? {error}")
        return JournalError(f"{self.shown} did not answer; the request to the journal may be repeated: {error}")


def _bytes(reply: object) -> bytes:
    return reply if isinstance(reply, bytes) else str(reply or "").encode()


def _client(uri: JournalUri) -> Redis:
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        raise JournalOpenError(f"{uri.shown} needs the package redis; pip install 'beam-agents[redis]'") from None
    try:
        client = Redis.from_url(
            uri.without_options(OPTIONS),
            retry=Retry(NoBackoff(), 0),
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            max_connections=4,
        )
        # Not connected yet, but it refuses options that it does not know.
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        return client
    except (ValueError, TypeError) as error:
        raise JournalOpenError(
            f"{uri.shown} is no address of a Redis server, or has an option that redis-py does not know: "
            f"{type(error).__name__}"
        ) from None
