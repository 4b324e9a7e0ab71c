"""Pydantic models that vendors take, change or refuse."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Plain(BaseModel):
    desk: Literal["billing", "bug"]


class Bounded(BaseModel):
    desk: Literal["billing", "bug"]
    urgency: int = Field(ge=0, le=5)


class FreeKeys(BaseModel):
    tags: dict[str, str]


class Unresolved(BaseModel):
    other: Nowhere  # type: ignore[name-defined]  # noqa: F821
