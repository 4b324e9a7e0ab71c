"""The demo's agent: sorts a support ticket. The whole of it: a schema, a few examples, one call."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel


class Triage(BaseModel):
    """Where a ticket belongs and how soon it must be answered."""

    category: Literal["billing", "bug", "how_to", "account", "feedback"]
    urgency: Literal["low", "normal", "high"]


EXAMPLES = [
    ("My invoice shows last year's price, please correct it.", "billing", "normal"),
    ("The page stays blank after I log in and our launch is today!", "bug", "high"),
    ("How do I add a second calendar?", "how_to", "low"),
    ("I no longer have access to my account.", "account", "high"),
    ("Thanks, the new editor is wonderful.", "feedback", "low"),
    ("The import stops with an error message after ten rows.", "bug", "normal"),
    ("Can I share a board with somebody outside the company?", "how_to", "low"),
    ("It would be better if the menu were on the left.", "feedback", "low"),
    ("Please change the owner of our account to Ms Lind.", "account", "normal"),
    ("We paid twice, when do we get the money back?", "billing", "high"),
]


def ticket_messages(text: str) -> list[dict[str, Any]]:
    """The examples, then the ticket."""
    shown: list[dict[str, Any]] = [{"role": "system", "content": "Sort support tickets by category and urgency."}]
    for question, category, urgency in EXAMPLES:
        answer = json.dumps({"category": category, "urgency": urgency})
        shown += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return [*shown, {"role": "user", "content": text}]


async def triage(ctx: Any, ticket: dict[str, Any]) -> dict[str, Any]:
    """Ask the model for category and urgency of one ticket."""
    result = await ctx.complete(ticket_messages(ticket["text"]), output_schema=Triage, temperature=0, max_tokens=60)
    return {"id": ticket["id"], **result.parsed.model_dump()}
