"""Names of trace attributes. `gen_ai.*`, `server.*` and `error.*` are OpenTelemetry's; see `docs/traces.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_OUTPUT_TYPE: Final = "gen_ai.output.type"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
HTTP_STATUS: Final = "http.response.status_code"

CACHE_HIT: Final = "beam_agents.cache_hit"
BILLED: Final = "beam_agents.billed"
ATTEMPTS: Final = "beam_agents.attempts"
CIRCUIT_STATE: Final = "beam_agents.circuit_state"
CALL_ID: Final = "beam_agents.call_id"
ATTEMPT_ID: Final = "beam_agents.attempt_id"
ATTEMPT_LOG: Final = "beam_agents.attempt_log"
ATTEMPT_OUTCOME: Final = "beam_agents.attempt_outcome"
IN_DOUBT: Final = "beam_agents.in_doubt"
DIVERGED_FIELDS: Final = "beam_agents.diverged_fields"
REPLAY: Final = "beam_agents.replay"
WAITED_MS: Final = "beam_agents.waited_ms"
SCHEMA_FAILURE: Final = "beam_agents.schema_failure"
CONTENT_WITHHELD: Final = "beam_agents.content_withheld"
OUTCOME: Final = "beam_agents.outcome"
ENTITY_KEY: Final = "beam_agents.entity_key"
SEQ: Final = "beam_agents.seq"
STEP_INDEX: Final = "beam_agents.step_index"

ATTRIBUTE_TYPES: Final[Mapping[str, Literal["string", "string[]", "int", "double", "boolean"]]] = {
    GEN_AI_OPERATION_NAME: "string",
    GEN_AI_AGENT_NAME: "string",
    GEN_AI_PROVIDER_NAME: "string",
    GEN_AI_REQUEST_MODEL: "string",
    GEN_AI_OUTPUT_TYPE: "string",
    GEN_AI_RESPONSE_MODEL: "string",
    GEN_AI_RESPONSE_ID: "string",
    GEN_AI_RESPONSE_FINISH_REASONS: "string[]",
    GEN_AI_INPUT_MESSAGES: "string",
    GEN_AI_OUTPUT_MESSAGES: "string",
    GEN_AI_USAGE_INPUT_TOKENS: "int",
    GEN_AI_USAGE_OUTPUT_TOKENS: "int",
    GEN_AI_USAGE_CACHED_TOKENS: "int",
    GEN_AI_USAGE_REASONING_TOKENS: "int",
    SERVER_ADDRESS: "string",
    SERVER_PORT: "int",
    ERROR_TYPE: "string",
    HTTP_STATUS: "int",
    CACHE_HIT: "boolean",
    BILLED: "boolean",
    ATTEMPTS: "int",
    CIRCUIT_STATE: "string",
    CALL_ID: "string",
    ATTEMPT_ID: "string",
    ATTEMPT_LOG: "string",
    ATTEMPT_OUTCOME: "string",
    IN_DOUBT: "int",
    DIVERGED_FIELDS: "string",
    REPLAY: "string",
    WAITED_MS: "double",
    SCHEMA_FAILURE: "string",
    CONTENT_WITHHELD: "string",
    OUTCOME: "string",
    ENTITY_KEY: "string",
    SEQ: "int",
    STEP_INDEX: "int",
}
"""The type that each attribute has on an OpenTelemetry span; on a `TraceEvent` all are strings."""
