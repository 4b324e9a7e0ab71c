"""`AgentConfig`: everything that a transform needs to know, validated when built, picklable."""

from __future__ import annotations

import math
import re
import uuid
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel

from beam_agents.activation.agent import agent_name
from beam_agents.activation.preflight import require_expressible
from beam_agents.errors import JournalOpenError
from beam_agents.model import RetryPolicy
from beam_agents.ports import Decode, DivergencePolicy, InDoubtPolicy, LLMClient
from beam_agents.providers import PROVIDERS

__all__ = ["AgentConfig"]

_RETRY_POLICY = RetryPolicy(max_attempts=6, base_ms=500, max_ms=30_000)

_CHOICES = {
    "on_error": ("dead_letter", "raise"),
    "on_divergence": ("warn", "strict", "rerun"),
    "on_in_doubt": ("repay", "fail", "defer"),
    "commit": ("bundle", "timer"),
    "on_open": ("wait", "dead_letter"),
    "structured_output": ("native", "prompt"),
}
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
_URL = re.compile(r"https?://[^\s/?#]+\S*", re.IGNORECASE)
_USER = re.compile(r"^([^:/@]*://)?.*@", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class AgentConfig:
    """How agents run and how they reach their model.

    Either `model`, such as `"openai:gpt-4o-mini"`, or `provider` together with `decode`.

    Attributes:
        model: `vendor:model`; `ctx.complete` uses it unless told otherwise.
        provider: picklable zero-argument factory of an `LLMClient`, called once per process.
        decode: reads the bytes of that provider's answers.
        base_url: endpoint of the vendor's API, when it is not the vendor's own.
        api_key_env: name of the environment variable that holds the key on the worker.
        retry_policy: how a failed request is retried.
        breaker_threshold: consecutive failed requests that open the circuit of an endpoint.
        breaker_cooldown_ms: how long an open circuit waits before a trial.
        journal: URI of the journal, such as `sqlite:///journal.db`, or `None`.
        max_in_flight: activations at work at once in one process.
        activation_timeout_s: hard deadline of one activation, in seconds.
        max_tokens_per_activation: token limit of one activation, or `None`.
        on_error: `dead_letter` makes a failed activation a record; `raise` fails the bundle.
        on_in_doubt: what to do when an earlier process died with the request in flight.
        on_divergence: what to do when an activation runs again and asks something else than the journal knows:
            pay and say so (`warn`), make a dead letter (`strict`), or give up what the journal knows of it from there
            on and start it again, once (`rerun`).
        sequence: takes an event's position from the event; `None` counts events per key.
        namespace: scopes positions and journal records; `None` is the transform's full label.
        commit: when what an activation did is committed: with its `bundle`, or by a `timer` of its key, so that a slow
            call holds back nothing else. `timer` is experimental, and only for streams on runners that keep
            REAL_TIME timers.
        on_open: while a circuit is open, `wait` for it or make a `dead_letter`.
        max_in_flight_per_endpoint: requests at once to one endpoint from one process; `None` for as many as
            activations. Fewer are sent while the endpoint limits the rate or slows down.
        requests_per_minute: requests to one endpoint from one process, or `None`.
        tokens_per_minute: tokens of one endpoint's answers and prompts for one process, or `None`.
        retry_budget: retries as a share of calls, for one endpoint and process, such as `0.2`; a call beyond
            it fails with its last error. `None` leaves retries to `retry_policy` alone.
        record_content: put prompts and answers into the trace events of calls; see the traces page.
        redact: with `record_content`, what every text of a prompt or answer goes through first. Picklable.
        state_ttl_s: seconds of event time (on Flink of processing time) after a key's last event at which its state,
            position included, is forgotten; `None` keeps it. Choose more than the journal's own time to live.
        structured_output: `native` asks for output schemas by the feature of `model`'s vendor; `prompt` writes them
            into the prompt, for endpoints without it.
        output_schemas: Pydantic models that the agent will ask for. What the vendor cannot be asked for fails here.
        closing_grace_s: how many seconds the end of the process waits for requests under way, so that their answers
            reach the journal. A process that is killed waits for nothing.
        identity: names this configuration in worker processes; survives pickling.

    Raises:
        ValueError: when a field has no sensible value; the message names field and value.
        SchemaNotExpressibleError: when the vendor cannot be asked for one of `output_schemas`.
    """

    model: str | None = None
    _: KW_ONLY
    provider: Callable[[], LLMClient] | None = field(default=None, repr=False)
    decode: Decode | None = None
    base_url: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    retry_policy: RetryPolicy = _RETRY_POLICY
    breaker_threshold: int = 10
    breaker_cooldown_ms: int = 10_000
    journal: str | None = field(default=None, repr=False)
    max_in_flight: int = 256
    activation_timeout_s: float = 300.0
    max_tokens_per_activation: int | None = None
    on_error: Literal["dead_letter", "raise"] = "dead_letter"
    on_in_doubt: InDoubtPolicy = "repay"
    sequence: Callable[[Any], int] | None = None
    namespace: str | None = None
    commit: Literal["bundle", "timer"] = "bundle"
    on_open: Literal["wait", "dead_letter"] = "wait"
    max_in_flight_per_endpoint: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    retry_budget: float | None = None
    on_divergence: DivergencePolicy = "warn"
    state_ttl_s: float | None = None
    structured_output: Literal["native", "prompt"] = "native"
    output_schemas: tuple[type[BaseModel], ...] = ()
    closing_grace_s: float = 2.0
    record_content: bool = False
    redact: Callable[[str], str] | None = None
    identity: str = field(default_factory=lambda: uuid.uuid4().hex, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_provider()
        self._check_numbers()
        self._check_texts()
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        self._check_schemas()
        self._check_content()
        if self.sequence is not None and not callable(self.sequence):
            raise ValueError(f"sequence must take an event and return its position, but is {self.sequence!r}")
        if self.breaker_threshold <= self.retry_policy.max_attempts:
            warnings.warn(
                f"breaker_threshold={self.breaker_threshold} is not above "
                f"retry_policy.max_attempts={self.retry_policy.max_attempts}: "
                "the failures of a single call can open the circuit for all",
                stacklevel=3,
            )

    def _check_provider(self) -> None:
        if (self.model is None) == (self.provider is None):
            raise ValueError(
                f"give either model or provider with decode, not both and not neither: "
                f"model={self.model!r}, provider={self.provider and agent_name(self.provider)}"
            )
        if self.model is not None:
            vendor, _, name = str(self.model).partition(":")
            if not isinstance(self.model, str) or not vendor.strip() or not name.strip():
                raise ValueError(f"model must look like 'openai:gpt-4o-mini', not {self.model!r}")
            if vendor not in PROVIDERS:
                raise ValueError(
                    f"model={self.model!r} names no vendor that there is: known are {', '.join(sorted(PROVIDERS))}; "
                    "for any other give provider and decode"
                )
            if self.decode is not None:
                raise ValueError(f"decode belongs to provider; model={self.model!r} brings its own")
            return
        if not callable(self.provider):
            raise ValueError(
                f"provider must be a factory without arguments, not a {type(self.provider).__name__}; "
                "wrap a client in one"
            )
        if not callable(self.decode):
            raise ValueError(f"decode must read the bytes of the provider's answers, but is {self.decode!r}")
        for name, left_out in (("base_url", None), ("api_key_env", None), ("structured_output", "native")):
            if getattr(self, name) != left_out:
                shown = _shown(name, getattr(self, name))
                raise ValueError(f"{name}={shown} has no effect on provider; give it to the factory")

    def _check_schemas(self) -> None:
        if not isinstance(self.output_schemas, tuple):
            raise ValueError(f"output_schemas must be a tuple of Pydantic models, not {self.output_schemas!r}")
        for schema in self.output_schemas:
            require_expressible(schema, self)

    def _check_content(self) -> None:
        if not isinstance(self.record_content, bool):
            raise ValueError(f"record_content must be True or False, not {self.record_content!r}")
        if self.redact is not None and not callable(self.redact):
            raise ValueError(f"redact must take a text and return what may be kept of it, but is {self.redact!r}")
        if self.redact is not None and not self.record_content:
            raise ValueError("redact has no effect without record_content=True")

    def _check_numbers(self) -> None:
        if not isinstance(self.retry_policy, RetryPolicy):
            raise ValueError(f"retry_policy must be a RetryPolicy, not {self.retry_policy!r}")
        _require_int("breaker_threshold", self.breaker_threshold, 1)
        _require_int("breaker_cooldown_ms", self.breaker_cooldown_ms, 0)
        _require_int("max_in_flight", self.max_in_flight, 1)
        if self.max_tokens_per_activation is not None:
            _require_int("max_tokens_per_activation", self.max_tokens_per_activation, 0)
        if self.max_in_flight_per_endpoint is not None:
            _require_int("max_in_flight_per_endpoint", self.max_in_flight_per_endpoint, 1)
        for name in ("requests_per_minute", "tokens_per_minute", "state_ttl_s"):
            _require_positive(name, getattr(self, name), math.inf)
        _require_positive("retry_budget", self.retry_budget, 1)
        grace = self.closing_grace_s
        if isinstance(grace, bool) or not isinstance(grace, (int, float)) or not 0 <= grace < math.inf:
            raise ValueError(f"closing_grace_s must be a finite number of seconds of at least 0, not {grace!r}")
        timeout = self.activation_timeout_s
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
            raise ValueError(f"activation_timeout_s must be a positive, finite number of seconds, not {timeout!r}")

    def _check_texts(self) -> None:
        _require_text("base_url", self.base_url, _URL, "an http:// or https:// URL")
        if self.base_url is not None and "@" in urlsplit(self.base_url).netloc:
            raise ValueError("base_url must not hold a user name or password: name the key's variable in api_key_env")
        _require_text(
            "api_key_env", self.api_key_env, _VARIABLE, "the name of an environment variable, not a key itself"
        )
        if self.namespace is not None and (not isinstance(self.namespace, str) or not self.namespace):
            raise ValueError(f"namespace must be a text that is not empty, not {self.namespace!r}")
        if self.journal is not None and (not isinstance(self.journal, str) or not _URI.fullmatch(self.journal)):
            raise ValueError(  # without the value: it may hold a password in any place
                "journal must be a URI such as 'sqlite:///journal.db', with a scheme and without spaces (%20)"
            )
        if self.journal is not None:
            _require_journal(self.journal)


def _require_journal(uri: str) -> None:
    from beam_agents.journals.opening import require_known  # SQLite and others, for those who journal

    try:
        require_known(uri)
    except JournalOpenError as error:
        raise ValueError(f"journal={error}") from None


def _require_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")


def _require_positive(name: str, value: object, most: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most or value == math.inf:
        limit = "" if most == math.inf else f" of at most {most:g}"
        raise ValueError(f"{name} must be a positive, finite number{limit}, or None, not {value!r}")


def _require_text(name: str, value: object, shape: re.Pattern[str], wanted: str) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not shape.fullmatch(value):
        raise ValueError(f"{name} must be {wanted}, which {_shown(name, value)} is not")


def _shown(name: str, value: object) -> str:
    """The value for an error, without what may be a secret: a key, or a URL's user, password and query."""
    if name == "api_key_env":
        return "the given value"
    if name == "base_url" and isinstance(value, str):
        return repr(_USER.sub(r"\1…@", value).partition("?")[0])
    return repr(value)
