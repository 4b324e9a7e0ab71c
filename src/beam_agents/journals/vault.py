"""Turns answers into what is stored and back: digests always, encryption when a key is given.

Sealed answers are AES-256-GCM (12-byte random nonce, then ciphertext and tag), bound to their record. The key
is the url-safe base64 of 32 bytes and comes from an environment variable; only its short id is ever stored.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from beam_agents.errors import JournalError, JournalOpenError
from beam_agents.journals.attempts import AttemptRow, Ending, dump_usage, record_digest
from beam_agents.ports import CallIdentity
from beam_agents.values import TokenUsage

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["Vault"]

_NONCE_BYTES = 12
_MAKE_A_KEY = 'python -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"'


class Vault:
    """Seals with the first key and opens with each. Without keys, answers are stored as they are."""

    def __init__(self, ciphers: Mapping[str, AESGCM] | None = None) -> None:
        self._ciphers = dict(ciphers or {})
        self.key_id = next(iter(self._ciphers), "")

    @classmethod
    def from_environment(cls, names: str, shown: str) -> Vault:
        """Keys from the environment variables `names` (comma-separated; the first one seals).

        Raises:
            JournalOpenError: when a variable or the `cryptography` package is missing, or a key is none.
        """
        ciphers = dict(_cipher(name.strip(), shown) for name in names.split(",") if name.strip())
        return cls(ciphers)

    def knows(self, key_id: str) -> bool:
        """Whether answers sealed with this key can be opened."""
        return not key_id or key_id in self._ciphers

    def require(self, key_id: str, shown: str) -> None:
        """Raises `JournalOpenError` unless answers sealed with this key can be opened."""
        if not self.knows(key_id):
            raise JournalOpenError(f"{shown}: {self._lacks(key_id)}")

    def answer(self, call: CallIdentity, ordinal: int, response: bytes, usage: TokenUsage | None) -> Ending:
        """An answer, ready to be stored."""
        text = dump_usage(usage)
        stored = self._seal(call, ordinal, response)
        digest = record_digest(call, ordinal, text, stored)
        return Ending("answered", usage=text, key_id=self.key_id, digest=digest, stored=stored)

    def opened(self, call: CallIdentity, row: AttemptRow) -> bytes | None:
        """The bytes of a stored answer, or `None` when they are damaged.

        Raises:
            JournalError: when they are sealed with a key that is not at hand.
        """
        if row.stored is None or row.digest != record_digest(call, row.ordinal, row.usage, row.stored):
            return None
        if not row.key_id:
            return row.stored
        return self._unseal(call, row, row.stored)

    def _seal(self, call: CallIdentity, ordinal: int, response: bytes) -> bytes:
        if not self.key_id:
            return response
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._ciphers[self.key_id].encrypt(nonce, response, _binding(call, ordinal))

    def _unseal(self, call: CallIdentity, row: AttemptRow, stored: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(row.key_id)
        if cipher is None:
            raise JournalError(self._lacks(row.key_id))
        try:
            return cipher.decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], _binding(call, row.ordinal))
        except (InvalidTag, ValueError):
            return None

    def _lacks(self, key_id: str) -> str:
        given = f"only {', '.join(self._ciphers)} was given" if self._ciphers else "no key was given"
        return (
            f"answers are sealed with key {key_id} and {given}; "
            "add ?key_env=NAME to the URI, where NAME is the environment variable that holds that key"
        )


def _binding(call: CallIdentity, ordinal: int) -> bytes:
    return f"{call.scope}\0{call.call_id}\0{ordinal}".encode()


def _cipher(name: str, shown: str) -> tuple[str, AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise JournalOpenError(
            f"{shown}: key_env needs the package cryptography; pip install 'beam-agents[encryption]'"
        ) from None
    key = _key(name, shown)
    return sha256(b"beam-agents journal key\0" + key).hexdigest()[:8], AESGCM(key)


def _key(name: str, shown: str) -> bytes:
    text = os.environ.get(name)
    if not text:
        raise JournalOpenError(
            f"{shown}: the environment variable {name}, named by key_env, is not set; make a key with {_MAKE_A_KEY}"
        )
    try:
        key = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise JournalOpenError(
            f"{shown}: the environment variable {name} does not hold the url-safe base64 of 32 bytes; "
            f"make a key with {_MAKE_A_KEY}"
        )
    return key
