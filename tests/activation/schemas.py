"""A model that agents in other modules ask for."""

from __future__ import annotations

from pydantic import BaseModel


class Elsewhere(BaseModel):
    text: str
