"""A journal opened for its keeper, and which of its records are meant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from beam_agents.cli.complaint import Complaint
from beam_agents.cli.keys import key_of_text
from beam_agents.errors import JournalError
from beam_agents.journals import JournalReader, RecordFilter, open_reader

__all__ = ["filter_of", "with_reader"]

_T = TypeVar("_T")


def filter_of(
    namespace: str | None = None, entity: str | None = None, seq: int | None = None, call: str | None = None
) -> RecordFilter:
    """The records that the options mean; all of them without any. Raises `Complaint` for a seq that there cannot be."""
    if seq is not None and not 0 <= seq < 2**63:
        raise Complaint(f"--seq counts from 0 and fits in 64 bits, but is {seq}")
    key = None if entity is None else key_of_text(entity)
    return RecordFilter(scope=namespace, entity_key=key, seq=seq, call_id=call or None)


def with_reader(uri: str, work: Callable[[JournalReader], Awaitable[_T]]) -> _T:
    """What `work` makes of the journal at `uri`.

    Raises:
        Complaint: when it is not there, cannot be opened or cannot be read.
    """

    async def opened() -> _T:
        async with _reader(uri) as reader:
            return await work(reader)

    return asyncio.run(opened())


@asynccontextmanager
async def _reader(uri: str) -> AsyncIterator[JournalReader]:
    try:
        reader = open_reader(uri)
        try:
            yield reader
        finally:
            await reader.aclose()
    except JournalError as error:
        raise Complaint(str(error)) from error
    except ImportError as error:
        raise Complaint(f"the journal needs a package that is not installed: {error}") from error
