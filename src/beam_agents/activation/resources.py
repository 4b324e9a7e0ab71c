"""What activations of one configuration share in a process: clients, breakers, journal, slots."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from beam_agents.activation.config import AgentConfig
from beam_agents.activation.gate import CircuitGate
from beam_agents.activation.limits import Admission, Slots
from beam_agents.activation.load import EndpointLoad, LoadLimits
from beam_agents.activation.loop import ActivationLoop, activation_loop
from beam_agents.activation.threads import Threads
from beam_agents.model import CircuitBreaker, CircuitState, circuit_breaker_for
from beam_agents.ports import Clock, Decode, Journal, LLMClient, Rng, Sleep

__all__ = ["ModelAccess", "Resources", "resources_for"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """The way to one model: a client, what reads its answers, and its endpoint's breaker, gate and limits."""

    client: LLMClient
    decode: Decode
    model_id: str
    breaker: CircuitBreaker
    gate: CircuitGate
    load: EndpointLoad


class Resources:
    """Shared by every activation of one configuration in one process. Use `resources_for`.

    `now_ms`, `sleep` and `rng` default to the loop's real ones; `rng` spreads the waits of workers.
    """

    def __init__(
        self,
        config: AgentConfig,
        loop: ActivationLoop,
        *,
        now_ms: Clock | None = None,
        sleep: Sleep | None = None,
        rng: Rng | None = None,
    ) -> None:
        self.config = config
        self.loop = loop
        self.now_ms: Clock = now_ms or loop.now_ms
        self.sleep: Sleep = sleep or loop.sleep
        self._rng: Rng = rng or loop.rng
        self.slots = Slots(config.max_in_flight)
        self.admission = Admission(config.max_in_flight)
        self.threads = Threads(config.max_in_flight)
        self._journal: Journal | None = None
        self._models: dict[str, ModelAccess] = {}
        self._throttled_ms = 0
        self._loads: dict[str, EndpointLoad] = {}
        loop.extend_grace(config.closing_grace_s)

    @property
    def journal(self) -> Journal | None:
        """The configured journal, opened once per process, or `None`."""
        uri = self.config.journal
        if uri is not None and self._journal is None:
            self._journal = _shared(self.loop, ("journal", uri), lambda: _open_journal(uri, self.now_ms))
        return self._journal

    def take_throttled_s(self) -> int:
        """For how many whole seconds endpoints' limits held requests back, since it was last asked."""
        with _lock:
            self._throttled_ms += sum(load.take_throttled_ms() for load in tuple(self._loads.values()))
            seconds, self._throttled_ms = divmod(self._throttled_ms, 1000)
            return seconds

    def take_breaker_opens(self) -> int:
        """How often circuits of the models asked for so far have opened, since anybody last asked."""
        return sum(breaker.take_opens() for breaker in {access.breaker for access in self._models.copy().values()})

    @property
    def circuits(self) -> dict[str, CircuitState]:
        """The state of each circuit of the models that were asked for so far, by endpoint."""
        return {access.breaker.endpoint: access.breaker.state for access in self._models.copy().values()}

    @property
    def on_the_wire(self) -> int:
        """Requests of this process that wait for their answers, as far as they go to these models' endpoints."""
        return sum(load.in_use for load in tuple(self._loads.values()))

    def model(self, name: str | None = None) -> ModelAccess:
        """The way to a model: the configured one, another `vendor:model`, or another model of the same vendor.

        Raises:
            ValueError: when `name` cannot be resolved.
        """
        access = self._models.get(name or "")
        if access is None:
            access = self._models[name or ""] = self._access(name)
        return access

    def _access(self, name: str | None) -> ModelAccess:
        config = self.config
        if config.model is None:
            make = config.provider or _no_provider
            client: Any = _shared(self.loop, ("provider", config.identity), lambda: _on_clock(make(), self.now_ms))
            return self._over(client, config.decode, name or getattr(client, "model_id", None) or "default")
        vendor, _, default = config.model.partition(":")
        other, _, model_id = (name or config.model).partition(":")
        if name is not None and not (model_id and _is_vendor(other)):
            other, model_id = vendor, name
        options: dict[str, str | None] = {}
        if other == vendor:
            options = {
                "base_url": config.base_url,
                "api_key_env": config.api_key_env,
                "structured_output": config.structured_output,
            }
        client = _shared(
            self.loop,
            ("vendor", other, *options.items()),
            lambda: _on_clock(_load_provider(f"{other}:{model_id or default}", options), self.now_ms),
        )
        return self._over(client, client.decode, model_id)

    def _over(self, client: Any, decode: Decode | None, model_id: str) -> ModelAccess:
        if decode is None:
            raise ValueError(f"decode is missing for {type(client).__name__}")
        endpoint = str(
            getattr(client, "endpoint_id", None)
            or getattr(client, "endpoint", None)
            or f"{type(client).__name__}#{self.config.identity[:8]}"
        )
        breaker = circuit_breaker_for(
            endpoint, threshold=self.config.breaker_threshold, cooldown_ms=self.config.breaker_cooldown_ms
        )
        gate = _shared(
            self.loop, ("gate", endpoint, id(breaker)), lambda: CircuitGate(breaker, self.now_ms, self.sleep, self._rng)
        )
        limits = self._limits()
        load = _shared(
            self.loop,
            ("load", endpoint, id(breaker)),
            lambda: EndpointLoad(limits, self.now_ms, self.sleep, breaker, self._rng, self.loop.under_way),
        )
        load.also_for(endpoint, limits)
        self._loads[endpoint] = load
        return ModelAccess(client, decode, model_id, breaker, gate, load)

    def _limits(self) -> LoadLimits:
        config = self.config
        return LoadLimits(
            concurrency=config.max_in_flight_per_endpoint or config.max_in_flight,
            requests_per_minute=config.requests_per_minute,
            tokens_per_minute=config.tokens_per_minute,
            retry_budget=config.retry_budget,
        )


_resources: dict[tuple[int, str], Resources] = {}
_parts: dict[tuple[int, Hashable], Any] = {}
_lock = threading.RLock()


def resources_for(config: AgentConfig) -> Resources:
    """The resources of `config` in this process, on the process's loop."""
    loop = activation_loop()
    key = (id(loop), config.identity)
    with _lock:
        found = _resources.get(key)
        if found is None:
            found = _resources[key] = Resources(config, loop)
            loop.on_close(lambda: _forget(key))
        return found


async def _forget(key: tuple[int, str]) -> None:
    _resources.pop(key, None)


def _shared(loop: ActivationLoop, name: Hashable, make: Callable[[], _T]) -> _T:
    """One part for each name, process and loop; closed with the loop."""
    key = (id(loop), name)
    with _lock:
        if key not in _parts:
            made = _parts[key] = make()
            loop.on_close(lambda: _close(key, made))
        found: _T = _parts[key]
        return found


async def _close(key: tuple[int, Hashable], part: Any) -> None:
    _parts.pop(key, None)
    aclose: Callable[[], Awaitable[None]] | None = getattr(part, "aclose", None)
    if aclose is not None:
        await aclose()


def _open_journal(uri: str, now_ms: Clock) -> Journal:
    journal: Journal = importlib.import_module("beam_agents.journals").open_journal(uri, now_ms=now_ms)
    return journal


def _load_provider(spec: str, options: Mapping[str, str | None]) -> Any:
    return importlib.import_module("beam_agents.providers").load_provider(spec, **options)


def _on_clock(client: Any, now_ms: Clock) -> Any:
    use_clock = getattr(client, "use_clock", None)
    if use_clock is not None:
        use_clock(now_ms)
    return client


def _is_vendor(name: str) -> bool:
    return name in importlib.import_module("beam_agents.providers").PROVIDERS


def _no_provider() -> LLMClient:
    raise ValueError("neither model nor provider is configured")


def _forget_all() -> None:
    global _lock
    _lock = threading.RLock()
    _resources.clear()
    _parts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
