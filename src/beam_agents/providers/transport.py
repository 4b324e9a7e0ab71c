"""One aiohttp transport for every vendor: one request on the wire, one whole answer, or a typed error.

Usable from several event loops and threads at once: each loop has a session of its own, which ends with
its loop.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from beam_agents.errors import (
    ConnectionBroken,
    EndpointUnreachable,
    ProviderError,
    ProviderRequestError,
    ProviderTimeout,
)
from beam_agents.providers.classification import WireAnswer

__all__ = ["Transport", "TransportSettings"]

_HEADER_BYTES = 65_536
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL)


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """How requests travel.

    Attributes:
        timeout_s: total deadline of one request, from asking for a connection to the last byte.
        connect_timeout_s: how long making a connection may take.
        max_connections: requests in flight at once on one loop; more wait for their turn.
        proxy: URL of an HTTP proxy; `None` reads HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY. One that needs a
            password comes from there, since settings are pickled.
        ca_file: certificates to trust instead of the system's.
    """

    timeout_s: float = 120.0
    connect_timeout_s: float = 10.0
    max_connections: int = 256
    proxy: str | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        for name in ("timeout_s", "connect_timeout_s", "max_connections"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ValueError(f"{name}={value!r} must be a finite number above 0")
        if self.proxy is not None:
            _check_proxy(URL(self.proxy))


@dataclass(frozen=True, slots=True)
class _LoopSession:
    http: aiohttp.ClientSession
    slots: asyncio.Semaphore
    owner: AsyncGenerator[None, None]
    proxy: str | None


class Transport:
    """Sends POST requests to one endpoint. Pickles by its settings; open connections stay behind."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._sessions: dict[asyncio.AbstractEventLoop, _LoopSession] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._settings,)

    async def post(self, url: URL, body: bytes, headers: Mapping[str, str]) -> WireAnswer:
        """Send one request and read the whole answer. Never retries and never follows a redirect.

        An answer whose status tells of a failure is one even when its body is cut or damaged; it is then empty.

        Raises:
            ProviderTimeout: no whole answer before the deadline, or no connection in time.
            EndpointUnreachable: no connection; nothing was sent.
            ProviderRequestError: the proxy refused the connection; nothing was sent.
            ConnectionBroken: the connection broke, or the answer came damaged.
        """
        session = self._sessions.get(asyncio.get_running_loop())
        if session is None or session.http.closed:
            session = await self._open(url)
        sent = False
        failures: list[WireAnswer] = []
        try:
            async with asyncio.timeout(self._settings.timeout_s), session.slots:
                sent = True
                return await _exchange(session, url, body, headers, failures)
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is one of these
            if failures:
                return failures[0]
            raise self._failure(error, url, sent) from error

    async def aclose(self) -> None:
        """Close this loop's connections. Idempotent; a later request opens new ones."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.owner.aclose()

    def _failure(self, error: Exception, url: URL, sent: bool) -> ProviderError | ProviderRequestError:
        settings = self._settings
        if isinstance(error, aiohttp.ClientHttpProxyError) and 400 <= error.status < 500:
            said = f"the proxy refused the way to {url.origin()} with status {error.status}; nothing was sent"
            return ProviderRequestError(error.status, message=said, code="proxy_refused")
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return _timed_out(f"no connection within {settings.connect_timeout_s:g} s", sent=False)
        if isinstance(error, TimeoutError):
            stage = "no whole answer" if sent else "no free connection"
            return _timed_out(f"{stage} within {settings.timeout_s:g} s", sent=sent)
        if isinstance(error, _NEVER_SENT):
            return EndpointUnreachable(
                f"{url.origin()} cannot be reached ({type(error).__name__}: {_os_reason(error)}); nothing was sent"
            )
        return ConnectionBroken(
            f"the connection to {url.origin()} broke before a whole answer arrived ({type(error).__name__})"
        )

    async def _open(self, url: URL) -> _LoopSession:
        loop = asyncio.get_running_loop()
        session = self._new_session(url)
        with self._lock:
            closed = [known for known in self._sessions if known.is_closed()]
            left = [self._sessions.pop(known) for known in closed]
            self._sessions[loop] = session
        # Entering the generator makes the loop's own shutdown close the session.
        await anext(session.owner)
        for forgotten in left:
            await forgotten.http.close()
        return session

    def _new_session(self, url: URL) -> _LoopSession:
        settings = self._settings
        http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, ssl=_tls(settings.ca_file)),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )
        proxy = settings.proxy or _environment_proxy(url.scheme, url.host or "")
        return _LoopSession(http, asyncio.Semaphore(settings.max_connections), _owner(http), proxy)


async def _owner(http: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """Closes `http` when its loop ends (`asyncio.run` closes async generators) or when it is dropped."""
    try:
        while True:
            yield
    finally:
        await http.close()


def _tls(ca_file: str | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise EndpointUnreachable(
            f"the certificates in ca_file={ca_file!r} cannot be read ({error.strerror or error}); nothing was sent"
        ) from error


def _check_proxy(proxy: URL) -> None:
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise ValueError("proxy must start with http:// or https:// and name a host; SOCKS is not spoken")
    if proxy.user or proxy.password:
        raise ValueError("proxy must not hold a user name or password: set it as HTTPS_PROXY where the worker runs")


async def _exchange(
    session: _LoopSession, url: URL, body: bytes, headers: Mapping[str, str], failures: list[WireAnswer]
) -> WireAnswer:
    """The whole answer. A failure is noted in `failures` before its body is read: its status says enough."""
    async with session.http.post(
        url, data=body, headers=headers, allow_redirects=False, proxy=session.proxy
    ) as response:
        if response.status >= 300:
            failures.append(WireAnswer(response.status, response.headers, b""))
        return WireAnswer(response.status, response.headers, await response.read())


def _environment_proxy(scheme: str, host: str) -> str | None:
    proxies = urllib.request.getproxies_environment()
    bypassed = urllib.request.proxy_bypass_environment(host, proxies)  # type: ignore[attr-defined]
    return None if bypassed else proxies.get(scheme) or proxies.get("all")


def _timed_out(what: str, *, sent: bool) -> ProviderTimeout:
    error = ProviderTimeout(f"{what}; raise timeout_s if the model needs longer" if sent else what)
    error.in_doubt = sent
    return error


def _os_reason(error: BaseException) -> str:
    cause = getattr(error, "os_error", None)
    return str(getattr(cause, "strerror", None) or cause or "")[:120]
