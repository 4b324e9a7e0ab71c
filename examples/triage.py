from typing import Literal

from pydantic import BaseModel


class Triage(BaseModel):
    category: Literal["billing", "bug", "how_to", "account", "feedback"]
    urgency: Literal["low", "normal", "high"]


async def triage(ctx, ticket):
    question = f"Sort this support ticket by category and urgency.\n\n{ticket['text']}"
    answer = await ctx.complete(question, output_schema=Triage, temperature=0)
    return {"id": ticket["id"], **answer.parsed.model_dump()}
