"""The documented attributes are the attributes, and the alerts ask for metrics that are exported."""

from __future__ import annotations

import re
from pathlib import Path

from beam_agents.attributes import ATTRIBUTE_TYPES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "traces.md"


def test_every_attribute_is_documented_with_its_type() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| (string\[\]|string|int|double|boolean) \|", PAGE.read_text("utf-8"), re.M)
    assert dict(rows) == dict(ATTRIBUTE_TYPES)


def test_the_alerts_ask_for_metrics_and_dimensions_that_are_exported() -> None:
    page = (DOCS / "metrics.md").read_text("utf-8")
    rules = page[page.index("groups:") :]
    told = set(re.findall(r"[a-z_]+_(?:count|sum|bucket)\b", rules))
    assert told == {
        "gen_ai_client_operation_duration_seconds_count",
        "gen_ai_client_operation_duration_seconds_bucket",
        "gen_ai_client_token_usage_sum",
    }
    labels = set(re.findall(r"([a-z_]+)(?:!?=)\"", rules)) | set(re.findall(r"by \((?:le, )?([a-z_]+)\)", rules))
    assert labels <= {name.replace(".", "_") for name in ATTRIBUTE_TYPES}
    assert {"error_type", "server_address", "gen_ai_request_model"} == labels
