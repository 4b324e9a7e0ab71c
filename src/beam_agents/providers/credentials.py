"""A key: given literally, named by an environment variable, or fetched by an async callable.

Its value never enters a pickle, a `repr` or an error. A literal key stays behind when it is pickled: the
worker then reads the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, TypeAlias

from beam_agents.errors import ProviderRequestError

__all__ = ["ApiKey", "Credential"]

ApiKey: TypeAlias = "str | Callable[[], Awaitable[str]]"
"""A key, or an async callable without arguments that returns one; it is awaited for every request."""

_HEADER_TEXT = re.compile(r"[\x20-\x7e]+")


class Credential:
    """Where a client's key comes from.

    `env_names` are the environment variables to read when no key was given, in order. `required` makes a
    missing key an error before anything is sent.
    """

    __slots__ = ("_key", "_left_behind", "env_names", "required")

    def __init__(self, key: ApiKey | None, env_names: tuple[str, ...], *, required: bool) -> None:
        self._key = key or None
        self._left_behind = False
        self.env_names = env_names
        self.required = required

    async def value(self) -> str | None:
        """The key for one request, without space around it, or `None` where the endpoint needs none.

        Raises:
            ProviderRequestError: with code `missing_credential` when there is no key, `malformed_credential` when
                it cannot stand in a header; nothing is sent.
        """
        found = await self._key() if callable(self._key) else self._at_hand()
        if not found:
            if not self.required:
                return None
            raise ProviderRequestError(None, message=self._missing(), code="missing_credential")
        key = found.strip() if isinstance(found, str) else ""
        if not _HEADER_TEXT.fullmatch(key):
            said = f"the API key (a {type(found).__name__}) is not one line of ASCII text; nothing was sent"
            raise ProviderRequestError(None, message=said, code="malformed_credential")
        return key

    @property
    def missing(self) -> str | None:
        """What to do when there is no key here although one is needed, else `None`."""
        if callable(self._key) or not self.required or self._at_hand() is not None:
            return None
        return self._missing()

    def fingerprint(self) -> str:
        """Eight hex digits that tell credentials apart without telling them."""
        if callable(self._key):
            named = f"{getattr(self._key, '__module__', '')}.{getattr(self._key, '__qualname__', type(self._key))}"
        else:
            named = self._at_hand() or ""
        return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:8]

    def _at_hand(self) -> str | None:
        if isinstance(self._key, str):
            return self._key
        return next((os.environ[name] for name in self.env_names if os.environ.get(name)), None)

    def _missing(self) -> str:
        if callable(self._key):
            return "there is no API key, nothing was sent: what was given as api_key returned none"
        names = " or ".join(self.env_names) or "api_key_env"
        behind = "; the key given as api_key does not travel to workers" if self._left_behind else ""
        return f"there is no API key, nothing was sent: set {names} in the worker's environment{behind}"

    def __getstate__(self) -> dict[str, Any]:
        literal = isinstance(self._key, str)
        return {
            "key": None if literal else self._key,
            "left_behind": literal or self._left_behind,
            "env_names": self.env_names,
            "required": self.required,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._key = state["key"]
        self._left_behind = state["left_behind"]
        self.env_names = state["env_names"]
        self.required = state["required"]

    def __repr__(self) -> str:
        source = "callable" if callable(self._key) else "given" if self._key is not None else "environment"
        return f"Credential({source}, env_names={self.env_names})"
