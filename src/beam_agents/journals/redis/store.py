"""The `AttemptStore` on a Redis server. Leases and times of records are by the server's clock."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from beam_agents.errors import JournalError
from beam_agents.journals.attempts import INTENT, AttemptRow, Ending, dump_fingerprint
from beam_agents.journals.batcher import Batcher
from beam_agents.journals.ownership import Heartbeat, Session
from beam_agents.journals.record import identity
from beam_agents.journals.redis.link import Command, RedisLink
from beam_agents.journals.stored import Opening, Rows
from beam_agents.ports import CallIdentity, Intent

__all__ = ["RedisStore", "call_of", "identity_arguments"]


class RedisStore:
    """Attempts on one Redis server; one loop and one connection, requests of all tasks in common pipelines."""

    def __init__(self, opening: Opening) -> None:
        self._terms = opening.uri.terms()
        self._link = RedisLink(opening.uri, opening.vault, makes_new=True)
        self._session = Session(opening.owner, self._terms)
        self._batcher: Batcher[Command] = Batcher(self._link.run, opening.uri.shown)
        self._heartbeat = Heartbeat(self._beat, self._terms.heartbeat_ms)
        self._grants = itertools.count(1)
        self.shown = opening.uri.shown

    async def read(self, call: CallIdentity) -> Rows:
        """See `AttemptStore.read`."""
        self._session.check()
        return self._rows(await self._batcher.submit(Command("read", self._link.keys(call))))

    async def at_position(self, call: CallIdentity) -> list[CallIdentity]:
        """See `AttemptStore.at_position`. Oldest first by when the latest request of each call began."""
        self._session.check()
        ends = self._link.keys(call)[1:]
        keys = [key for key in await self._link.calls_at(call) if key != self._link.keys(call)[0]]
        commands = [Command("summary", (key, *ends), (0,)) for key in keys]
        found = [reply for reply in await self._link.run(commands) if len(reply) > 1] if commands else []
        found.sort(key=lambda reply: int(reply[-1][10] or 0))
        return [each for reply in found if (each := call_of(reply[0])) is not None]

    async def grant(self, call: CallIdentity) -> int | Rows:
        """See `AttemptStore.grant`."""
        self._session.check()
        self._heartbeat.start()
        keys, grant = self._link.keys(call), next(self._grants)
        terms = (self._terms.lease_ms, self._terms.ttl_ms or 0)
        arguments = (self._session.id, self._session.owner, grant, *terms, *identity_arguments(call))
        withdrawal = Command("withdraw", keys, (self._session.id, grant))
        reply = await self._batcher.obtain(Command("grant", keys, arguments), withdrawal)
        return reply if isinstance(reply, int) else self._rows(reply)

    async def finish(self, intent: Intent, ending: Ending) -> bool:
        """See `AttemptStore.finish`."""
        self._session.check()
        arguments = (
            self._session.owner,
            self._terms.ttl_ms or 0,
            *identity_arguments(intent.call),
            intent.ordinal,
            ending.state,
            ending.error_type,
            "" if ending.status is None else ending.status,
            ending.usage,
            ending.key_id,
            ending.digest or b"",
            b"" if ending.stored is None else ending.stored,
        )
        return bool(await self._batcher.submit(Command("finish", self._link.keys(intent.call), arguments)))

    async def condemn(self, call: CallIdentity, ordinal: int, digest: bytes | None, error_type: str) -> None:
        """See `AttemptStore.condemn`."""
        self._session.check()
        await self._batcher.submit(Command("condemn", self._link.keys(call), (ordinal, digest or b"", error_type)))

    async def aclose(self) -> None:
        """See `Journal.aclose`."""
        if self._session.closed:
            return
        self._session.close()
        self._heartbeat.stop()
        await self._batcher.drain()
        if self._heartbeat.was_started:
            with contextlib.suppress(JournalError):
                await self._link.run([self._beat_command(lease_ms=0)])
        await self._link.aclose()

    async def _beat(self) -> None:
        await self._batcher.submit(self._beat_command(self._terms.lease_ms))

    def _beat_command(self, lease_ms: int) -> Command:
        return Command("beat", self._link.keys(CallIdentity("")), (self._session.id, lease_ms))

    def _rows(self, reply: list[Any]) -> Rows:
        flat, leases = reply
        fields = {flat[i].decode(): flat[i + 1] for i in range(0, len(flat), 2)}
        left = {int(leases[i]): float(leases[i + 1]) for i in range(0, len(leases), 2)}
        ordinals = range(1, int(fields.get("n", b"0")) + 1)
        return tuple(self._row(i, fields, left) for i in ordinals if f"{i}:state" in fields)

    def _row(self, ordinal: int, fields: dict[str, bytes], left: dict[int, float]) -> AttemptRow:
        def text(name: str) -> str:
            return fields.get(f"{ordinal}:{name}", b"").decode()

        row = AttemptRow(
            ordinal=ordinal,
            state=text("state"),  # type: ignore[arg-type]
            error_type=text("error"),
            status=int(text("status")) if text("status") else None,
            usage=text("usage"),
            key_id=text("key"),
            digest=fields.get(f"{ordinal}:digest"),
            stored=fields.get(f"{ordinal}:response"),
        )
        if row.state != INTENT:
            return row
        return row._replace(lease_left_ms=self._session.left_ms(text("session"), int(left[ordinal]), 0))


def identity_arguments(call: CallIdentity) -> tuple[Any, ...]:
    """A call's identity, in the order that the scripts take it."""
    return (
        call.scope,
        call.call_id,
        call.entity_key,
        call.seq,
        call.step_index,
        call.model_id,
        call.kind,
        dump_fingerprint(call.fingerprint),
    )


def call_of(facts: list[Any]) -> CallIdentity | None:
    """A call from the identity that the `summary` script gives; `None` when it is gone."""
    if facts[1] is None:
        return None
    scope, call_id, entity_key, seq, step_index, model_id, kind, fingerprint = facts
    texts = (model_id.decode(), kind.decode(), fingerprint.decode())
    return identity((scope.decode(), call_id.decode(), entity_key, int(seq), int(step_index), *texts))
