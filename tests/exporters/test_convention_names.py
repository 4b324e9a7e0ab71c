"""Our attribute names against the constants of OpenTelemetry's own package."""

from __future__ import annotations

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, http_attributes, server_attributes

from beam_agents import attributes


def constants(module: object) -> set[str]:
    return {value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


OURS = constants(attributes)


def test_every_name_outside_our_namespace_is_the_conventions() -> None:
    theirs = constants(gen_ai_attributes)
    for module in (error_attributes, http_attributes, server_attributes):
        theirs |= constants(module)
    assert {name for name in OURS if not name.startswith("beam_agents.")} <= theirs


def test_every_name_has_a_type() -> None:
    assert set(attributes.ATTRIBUTE_TYPES) == OURS


def test_the_metrics_have_the_conventions_names() -> None:
    assert {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"} <= constants(gen_ai_metrics)
