"""The connections to a PostgreSQL server: made at first use, made again when they broke, secrets never shown."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from beam_agents.errors import JournalError, JournalOpenError
from beam_agents.journals.postgresql.statements import SCHEMA_VERSION, TABLES, Statement
from beam_agents.journals.uri import JournalUri
from beam_agents.journals.vault import Vault

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["OPTIONS", "PostgresqlLink"]

OPTIONS = ("key_env", "lease_s", "schema", "ttl_h")
"""The options that are ours; the others go to libpq."""

_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 10


class PostgresqlLink:
    """One connection. Statements of a batch go out together (pipelined), as one transaction.

    `makes_new` makes the tables when they are not there.
    """

    def __init__(self, uri: JournalUri, vault: Vault, *, makes_new: bool) -> None:
        self.shown = uri.shown
        self._conninfo = uri.without_options(OPTIONS)
        self._password = urlsplit(uri.raw).password
        self._schema = uri.options.get("schema", "beam_agents")
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", self._schema):
            raise JournalOpenError(f"{uri.shown}: schema={self._schema!r} must be a plain lower-case name")
        _require_psycopg(uri.shown)
        self._vault = vault
        self._makes_new = makes_new
        self._connection: AsyncConnection[tuple[Any, ...]] | None = None
        self._was_open = False

    async def run(self, statements: Sequence[Statement]) -> list[Any]:
        """For each statement its rows, or the `JournalError` that only it met.

        Raises:
            JournalError: when the connection broke; then all or none of what was to be written is.
        """
        import psycopg

        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._attempt(await self._connected(), statements)
        except (psycopg.Error, OSError, TimeoutError) as error:
            raise await self._broken(error) from error

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _attempt(
        self, connection: AsyncConnection[tuple[Any, ...]], statements: Sequence[Statement]
    ) -> list[Any]:
        import psycopg

        try:
            return await self._together(connection, statements)
        except psycopg.Error as error:
            if connection.broken or connection.closed:
                raise
            if len(statements) == 1:
                return [self._explained(error)]
        return [(await self._attempt(connection, [statement]))[0] for statement in statements]

    async def _together(
        self, connection: AsyncConnection[tuple[Any, ...]], statements: Sequence[Statement]
    ) -> list[Any]:
        places = sorted(range(len(statements)), key=lambda place: statements[place].order)
        results: list[Any] = [None] * len(statements)
        async with connection.pipeline(), connection.transaction():
            cursors = []
            for place in places:
                text = statements[place].text.replace("{s}", self._schema)
                cursor = connection.cursor(binary=True)
                await cursor.execute(text, statements[place].parameters)
                cursors.append(cursor)
            for place, cursor in zip(places, cursors, strict=True):
                results[place] = await cursor.fetchall()
        return results

    async def _connected(self) -> AsyncConnection[tuple[Any, ...]]:
        from psycopg import AsyncConnection

        if self._connection is None or self._connection.closed:
            self._connection = await AsyncConnection.connect(
                self._conninfo, autocommit=True, connect_timeout=_CONNECT_TIMEOUT_S, application_name="beam-agents"
            )
            try:
                if not self._was_open:
                    await self._prepare(self._connection)
            except BaseException:
                await self.aclose()
                raise
            self._was_open = True
        return self._connection

    async def _prepare(self, connection: AsyncConnection[tuple[Any, ...]]) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"beam-agents {self._schema}",))
            if not await _value(connection, "SELECT to_regclass(%s)", f"{self._schema}.attempts"):
                if not self._makes_new:
                    raise JournalOpenError(f"{self.shown}: there is no journal in the schema {self._schema}")
                for statement in TABLES.replace("{s}", self._schema).split(";"):
                    await connection.execute(statement.encode())
            version = await _value(connection, self._meta("SELECT value FROM {s}.meta WHERE name = %s"), "version")
            if int(version or "0") > SCHEMA_VERSION:
                raise JournalOpenError(
                    f"{self.shown} has schema version {version} in {self._schema}, this beam-agents knows up to "
                    f"{SCHEMA_VERSION}; use the newer beam-agents, or another ?schema="
                )
            if self._makes_new:
                await self._agree_on_key(connection)

    async def _agree_on_key(self, connection: AsyncConnection[tuple[Any, ...]]) -> None:
        kept = await _value(connection, self._meta("SELECT value FROM {s}.meta WHERE name = %s"), "key_id")
        self._vault.require(kept or "", self.shown)
        if self._vault.key_id and kept != self._vault.key_id:
            await connection.execute(
                self._meta(
                    "INSERT INTO {s}.meta VALUES ('key_id', %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
                ),
                (self._vault.key_id,),
            )

    def _meta(self, text: str) -> bytes:
        return text.replace("{s}", self._schema).encode()

    async def _broken(self, error: BaseException) -> JournalError:
        await self.aclose()
        if self._was_open:
            return self._explained(error)
        return JournalOpenError(
            f"{self.shown} cannot be opened; is the server up, and are address, user and rights right? "
            f"{self._said(error)}"
        )

    def _explained(self, error: BaseException) -> JournalError:
        return JournalError(
            f"{self.shown} did not do it, and nothing was written; the request to the journal may be repeated: "
            f"{self._said(error)}"
        )

    def _said(self, error: BaseException) -> str:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return said.replace(self._password, "***") if self._password else said


async def _value(connection: AsyncConnection[tuple[Any, ...]], text: str | bytes, parameter: str) -> Any:
    encoded = text if isinstance(text, bytes) else text.encode()
    row = await (await connection.execute(encoded, (parameter,))).fetchone()
    return None if row is None else row[0]


def _require_psycopg(shown: str) -> None:
    try:
        from psycopg import Pipeline
    except ImportError:
        raise JournalOpenError(f"{shown} needs the package psycopg; pip install 'beam-agents[postgresql]'") from None
    if not Pipeline.is_supported():
        raise JournalOpenError(f"{shown} needs libpq 14 or newer; pip install 'psycopg[binary]'")
