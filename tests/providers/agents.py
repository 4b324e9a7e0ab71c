"""One example agent and a facade around a client, for tests that go over a whole call."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from beam_agents.model import CircuitBreaker, LlmFacade, ReplayCache, RetryPolicy
from beam_agents.testing import ManualClock, RecordingSink, RecordingSleep
from beam_agents.values import LlmRequest


class Advice(BaseModel):
    """What the example agent answers."""

    umbrella: bool
    mood: Literal["good", "bad"]


WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@dataclass
class Bench:
    """A facade around `client`, with everything nondeterministic held still."""

    client: Any
    attempts: int = 3
    clock: ManualClock = field(default_factory=ManualClock)
    sink: RecordingSink = field(default_factory=RecordingSink)

    def __post_init__(self) -> None:
        self.sleep = RecordingSleep(self.clock)
        self.facade = LlmFacade(
            self.client,
            ReplayCache(now_ms=self.clock),
            now_ms=self.clock,
            rng=random.Random(7),
            sleep=self.sleep,
            breaker=CircuitBreaker(endpoint=self.client.endpoint, threshold=100, cooldown_ms=1),
            retry_policy=RetryPolicy(max_attempts=self.attempts, base_ms=10, max_ms=100),
            decode=self.client.decode,
            staging=self.sink,
        )

    async def complete(self, messages: Any, **options: Any) -> Any:
        schema = options.pop("output_schema", None)
        tools = options.pop("tools_schema", None)
        request = LlmRequest("test-model", messages, tools, options or None)
        return await self.facade.complete(request, entity_key=b"k", seq=0, output_schema=schema)

    @property
    def traced_attempts(self) -> list[int]:
        return [int(event.attributes["beam_agents.attempts"]) for event in self.sink.trace_events]


async def weather_agent(bench: Bench, city: str) -> Advice:
    """System message, tool call round trip, structured output: the same for every vendor."""
    messages: list[Any] = [
        {"role": "system", "content": "You advise travellers."},
        {"role": "user", "content": f"Do I need an umbrella in {city}?"},
    ]
    asked = await bench.complete(messages, tools_schema=[WEATHER_TOOL], tool_choice="auto", temperature=0)
    messages.append({"role": "assistant", "content": asked.text, "tool_calls": list(asked.decoded.tool_calls)})
    for call in asked.decoded.tool_calls:
        arguments = json.loads(call["function"]["arguments"])
        result = json.dumps({"city": arguments["city"], "sky": "rain"})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    answered = await bench.complete(messages, output_schema=Advice, temperature=0)
    return answered.parsed
