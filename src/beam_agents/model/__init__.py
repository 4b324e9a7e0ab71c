"""The facade over one provider client, and the parts it is made of."""

from beam_agents.errors import (
    BudgetExceeded,
    CircuitOpenError,
    OutputSchemaError,
    ProviderError,
    ProviderRequestError,
    ProviderTimeout,
    RateLimitError,
    ResponseDecodeError,
    ServerError,
)
from beam_agents.model.breaker import (
    CircuitBreaker,
    CircuitState,
    Permit,
    circuit_breaker_for,
    reset_circuit_breakers,
)
from beam_agents.model.budget import TokenBudget
from beam_agents.model.cache_key import compute_cache_key
from beam_agents.model.facade import FacadeResult, LlmFacade
from beam_agents.model.replay_cache import ReplayCache, ReplayEntry
from beam_agents.model.retry import RetryPolicy
from beam_agents.ports import Decode, LLMClient, StagingSink
from beam_agents.values import DecodedResponse, LlmRequest, LlmResponse, TokenUsage

__all__ = [
    "BudgetExceeded",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitState",
    "Decode",
    "DecodedResponse",
    "FacadeResult",
    "LLMClient",
    "LlmFacade",
    "LlmRequest",
    "LlmResponse",
    "OutputSchemaError",
    "Permit",
    "ProviderError",
    "ProviderRequestError",
    "ProviderTimeout",
    "RateLimitError",
    "ReplayCache",
    "ReplayEntry",
    "ResponseDecodeError",
    "RetryPolicy",
    "ServerError",
    "StagingSink",
    "TokenBudget",
    "TokenUsage",
    "circuit_breaker_for",
    "compute_cache_key",
    "reset_circuit_breakers",
]
