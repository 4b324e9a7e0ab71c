"""An agent whose second half fails while a file named `broken` lies in the working folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any


async def fragile(ctx: Any, event: Any) -> Any:
    first = await ctx.complete(event["text"])
    if _is_broken() and "invoice" in event["text"]:
        raise RuntimeError("no luck today")
    second = await ctx.complete(f"{event['text']}: {first.text}")
    return {"text": event["text"], "said": second.text}


def _is_broken() -> bool:
    return Path("broken").exists()
