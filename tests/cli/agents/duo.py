"""An agent with two calls, a step and a state."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Category(BaseModel):
    category: Literal["billing", "bug", "how_to", "account", "feedback"]


async def duo(ctx: Any, event: Any) -> Any:
    first = await ctx.complete(event["text"], output_schema=Category)
    length = await ctx.step("length", len, event["text"])
    ctx.state = (ctx.state or 0) + 1
    second = await ctx.complete(
        [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": f"{event['text']} ({length}), ticket {ctx.state}"},
        ]
    )
    return {"desk": first.parsed.category, "said": second.text, "ticket": ctx.state}
