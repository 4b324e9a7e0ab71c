"""Public test doubles: a scripted model, a clock and a sleeper that stand still, a sink that remembers.

They use nothing but the ports, so what passes with them passes with the real parts.
"""

from beam_agents.testing.fake_llm import (
    FakeLLM,
    UnmatchedRequestError,
    fail_then_succeed,
    match_any,
    match_contains,
    match_model_id,
    raise_error,
    respond_with,
)
from beam_agents.testing.recording import ManualClock, RecordingSink, RecordingSleep

__all__ = [
    "FakeLLM",
    "ManualClock",
    "RecordingSink",
    "RecordingSleep",
    "UnmatchedRequestError",
    "fail_then_succeed",
    "match_any",
    "match_contains",
    "match_model_id",
    "raise_error",
    "respond_with",
]
