"""Agents over lines of text and tickets, against the scripted stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel


class Category(BaseModel):
    category: Literal["billing", "bug", "how_to", "account", "feedback"]


class Impossible(BaseModel):
    colour: Literal["red", "green"]


@dataclass
class Sorted:
    text: str
    desk: str


async def sort(ctx: Any, event: Any) -> Sorted:
    text = event if isinstance(event, str) else event["text"]
    result = await ctx.complete(text, output_schema=Category)
    return Sorted(text, result.parsed.category)


async def unlucky(ctx: Any, event: Any) -> Any:
    """Asks for a shape that the stand-in never gives when the text says so."""
    if "colour" in event["text"]:
        await ctx.complete(event["text"], output_schema=Impossible)
    return await sort(ctx, event)


class Tagged(BaseModel):
    tags: dict[str, str]


async def tag(ctx: Any, event: Any) -> Any:
    """Asks for what not every vendor can be asked for."""
    return (await ctx.complete(event["text"], output_schema=Tagged)).parsed


async def unwritable(ctx: Any, event: Any) -> Any:
    return object()


not_an_agent = 3


def without_invoices(text: str) -> str:
    return text.replace("invoice", "[bill]")
