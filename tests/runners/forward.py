"""`python -m tests.runners.forward LISTEN TO PORT`: passes connections on to the same port of another address."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from functools import partial

__all__ = ["main"]

_CHUNK = 65_536


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _serve(to: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    there_reader, there_writer = await asyncio.open_connection(to, port)
    await asyncio.gather(_pipe(reader, there_writer), _pipe(there_reader, writer))


async def main(listen: str, to: str, port: int) -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(partial(_serve, to, port), listen, port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
