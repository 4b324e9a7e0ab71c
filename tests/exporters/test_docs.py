"""The documented attributes are the attributes."""

from __future__ import annotations

import re
from pathlib import Path

from beam_agents.attributes import ATTRIBUTE_TYPES

PAGE = Path(__file__).parents[2] / "docs" / "traces.md"


def test_every_attribute_is_documented_with_its_type() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| (string\[\]|string|int|double|boolean) \|", PAGE.read_text("utf-8"), re.M)
    assert dict(rows) == dict(ATTRIBUTE_TYPES)
