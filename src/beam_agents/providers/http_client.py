"""What every vendor's client shares; a vendor adds its wire. See `docs/providers.md`, "Add a vendor".

One `complete` is: key, body, one request on the wire, classification, verbatim bytes.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypedDict

from multidict import CIMultiDict
from yarl import URL

from beam_agents.ports import Clock, current_call
from beam_agents.providers.classification import Asked, accepted_body
from beam_agents.providers.credentials import Credential
from beam_agents.providers.structured_output import schema_in_prompt
from beam_agents.providers.transport import Transport, TransportSettings
from beam_agents.values import LlmRequest, LlmResponse

__all__ = ["ClientOptions", "HttpClient", "SchemaMode", "VendorNames"]

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "gzip, deflate"}

SchemaMode = Literal["native", "prompt"]
"""`native` asks for structured output by the vendor's own feature; `prompt` writes the schema into the prompt."""


class ClientOptions(TypedDict, total=False):
    """Arguments that every client takes.

    `api_key` is a key or an async callable that returns one; `api_key_env` names the environment variable to
    read on the worker instead of the vendor's own. `model_id` is only carried for the caller. `headers` are
    sent with each request. `idempotency_key=True` sends `Idempotency-Key`, the id of the call, to endpoints
    that honour it. `now_ms` dates a `Retry-After` date when the answer has no `Date` of its own. The others
    are those of `TransportSettings`.
    """

    api_key: str | Callable[[], Awaitable[str]] | None
    api_key_env: str | None
    base_url: str | None
    model_id: str
    headers: Mapping[str, str]
    idempotency_key: bool
    structured_output: SchemaMode
    now_ms: Clock | None
    timeout_s: float
    connect_timeout_s: float
    max_connections: int
    proxy: str | None
    ca_file: str | None


@dataclass(frozen=True, slots=True)
class VendorNames:
    """A vendor's own address and the usual names in the environment; the first one set counts."""

    base_url: str
    base_url_env: tuple[str, ...]
    api_key_env: tuple[str, ...]


class HttpClient:
    """Base of the vendors' clients: transport, key and classification of one endpoint.

    A vendor defines `provider_name`, `names`, `decode`, `_url`, `_auth` and `_body`. Usable from several
    loops and threads; pickles without its key and its connections.
    """

    provider_name: ClassVar[str]
    names: ClassVar[VendorNames]

    def __init__(self, **options: Any) -> None:
        taken = {**options}
        base_url = taken.pop("base_url", None) or _first_set(self.names.base_url_env) or self.names.base_url
        self.model_id: str = taken.pop("model_id", "")
        self._base_url, self._query = _checked_url(base_url)
        url = URL(self._base_url)
        self._endpoint = f"{url.scheme}://{url.host}:{url.port}"
        self._credential = self._make_credential(taken.pop("api_key", None), taken.pop("api_key_env", None))
        self._idempotency_key: bool = taken.pop("idempotency_key", False)
        self._structured_output: SchemaMode = taken.pop("structured_output", "native")
        self._now_ms: Clock | None = taken.pop("now_ms", None)
        self._headers: CIMultiDict[str] = CIMultiDict(_HEADERS)
        self._headers.update(taken.pop("headers", None) or {})
        self._transport = Transport(TransportSettings(**taken))
        if self._structured_output not in ("native", "prompt"):
            raise ValueError(f"structured_output={self._structured_output!r} must be 'native' or 'prompt'")

    @property
    def endpoint(self) -> str:
        """Scheme, host and port."""
        return self._endpoint

    @property
    def endpoint_id(self) -> str:
        """The endpoint and a short hash of the credential: what shares a rate limit shares a breaker."""
        return f"{self.endpoint}#{self._credential.fingerprint()}"

    @property
    def missing_key(self) -> str | None:
        """What to do when no key can be found here although the endpoint needs one, else `None`."""
        return self._credential.missing

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """One request on the wire; the answer's bytes, verbatim.

        Raises:
            RateLimitError, ServerError, ProviderTimeout: what a retry may mend.
            ProviderRequestError: what it may not.
            SchemaNotExpressibleError, ValueError, TypeError: as in `prepare`; nothing was sent.
        """
        return await (await self.prepare(request))()

    async def prepare(self, request: LlmRequest) -> Callable[[], Awaitable[LlmResponse]]:
        """What sends `request`, once, when it is called.

        Raises:
            ProviderRequestError: there is no key.
            SchemaNotExpressibleError, ValueError, TypeError: the request cannot be written.
        """
        for message in request.messages:
            if not isinstance(message, Mapping):
                raise ValueError(f"a message is a {type(message).__name__}; it must be an object with role and content")
        asked = schema_in_prompt(request) if self._structured_output == "prompt" else request
        url, body = self._url(request.model_id), self._body(asked)
        key = await self._credential.value()

        async def send() -> LlmResponse:
            answer = await self._transport.post(url, body, self._request_headers(key))
            return LlmResponse(accepted_body(answer, Asked(self.endpoint, request.messages, key, self._now_ms)))

        return send

    async def aclose(self) -> None:
        """Close the running loop's connections. Idempotent."""
        await self._transport.aclose()

    def use_clock(self, now_ms: Clock) -> None:
        """Use `now_ms` where the client was given no clock of its own; no clock travels in a pickle."""
        self._now_ms = self._now_ms or now_ms

    def _make_credential(self, key: Any, env_name: str | None) -> Credential:
        names = (env_name,) if env_name else self._key_names()
        vendors_own = URL(self._base_url).host == URL(self.names.base_url).host
        return Credential(key, names, required=vendors_own or env_name is not None)

    def _key_names(self) -> tuple[str, ...]:
        return self.names.api_key_env

    def _request_headers(self, key: str | None) -> Mapping[str, str]:
        headers = self._headers.copy()
        if key is not None:
            headers.update(self._auth(key))
        call = current_call.get() if self._idempotency_key else None
        if call is not None:
            headers["Idempotency-Key"] = call.call_id
        return headers

    def _address(self, path: str, model_id: str = "") -> URL:
        """`path` below the base URL, whose query stays at the end; `{model}` in it becomes `model_id`."""
        return URL((self._base_url + path).replace("{model}", model_id)).update_query(self._query)

    def _url(self, model_id: str) -> URL:
        raise NotImplementedError

    def _auth(self, key: str) -> Mapping[str, str]:
        raise NotImplementedError

    def _body(self, request: LlmRequest) -> bytes:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_now_ms": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint}, {self._credential!r})"


def _first_set(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _checked_url(text: str) -> tuple[str, str]:
    """The address without a slash at its end, and its query."""
    url = URL(text)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"base_url={text!r} must start with http:// or https:// and name a host")
    if url.user or url.password:
        raise ValueError("base_url must not hold a user name or password: give the key as api_key or api_key_env")
    address, _, query = text.partition("?")
    return address.rstrip("/"), query
