"""A vendor's error message without the words of the prompt and without the key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["identifier", "redacted_message", "without_keys"]

_MAX_CHARS = 240
_TOKEN = re.compile(r"[^\W_]+")
_KEY_SHAPED = re.compile(r"\b(?:sk-|AIza)[A-Za-z0-9_*-]+")
_UNSAFE_ID = re.compile(r"[^A-Za-z0-9_.:/-]+")

# Words of the APIs themselves: they tell nothing about a prompt even where it holds them too.
_PLAIN_WORDS = frozenset(
    re.findall(
        "[a-z]+",
        """
        additionalproperties all allowed also and any api are argument arguments array assistant at
        be been body but cannot characters code completion completions content context count did
        does each empty error exceed exceeded exceeds expected failed field fields format found from
        function given greater has have image input integer invalid is it item items json key large
        least length less limit long maximum may message messages minimum missing model must name
        non none not null number object one only or output parameter parameters permitted please
        properties property provided range reduce reference request required response role schema
        should string supported system temperature text than that the this token tokens too tool
        tools type unexpected unknown unsupported use user value values was were with you your
        """,
    )
)


def identifier(value: object, limit: int = 96) -> str | None:
    """A vendor's code or id as printable ASCII of at most `limit` characters, or `None`."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return _UNSAFE_ID.sub("_", str(value)[:limit]) or None


def without_keys(text: str) -> str:
    """`text` with `…` in place of what has the shape of a provider's key."""
    return _KEY_SHAPED.sub("…", text)


def redacted_message(message: object, messages: Sequence[Any], key: str | None) -> str:
    """`message` in one short line; every word that the prompt or the key holds is replaced by `…`.

    Words of three letters and fewer, and the APIs' own common words, stay; words that are not ASCII go.
    """
    if not isinstance(message, str):
        return ""
    secret = " ".join(_strings(messages)).casefold()
    line = without_keys(" ".join(message[: 4 * _MAX_CHARS].split()))
    shown = _TOKEN.sub(lambda found: _shown(found.group(), secret, key or ""), line)
    shown = re.sub(r"…(?:[^A-Za-z0-9]{0,3}…)+", "…", shown)
    return shown if len(shown) <= _MAX_CHARS else shown[: _MAX_CHARS - 1] + "…"


def _shown(token: str, secret: str, key: str) -> str:
    folded = token.casefold()
    if not token.isascii() or _reveals_key(token, key):
        return "…"
    if folded in _PLAIN_WORDS or (len(token) <= 3 and token.isalpha()):
        return token
    return "…" if folded in secret else token


def _reveals_key(token: str, key: str) -> bool:
    return len(key) >= 4 and any(key[at : at + 4] in token for at in range(len(key) - 3))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _strings(item)]
    return [str(value)] if isinstance(value, (int, float)) else []
