"""Journal URIs: where a journal lives and how it is to be kept. Secrets in them are never shown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from beam_agents.errors import JournalOpenError

__all__ = ["JournalUri", "Terms"]

_HOUR_MS = 3_600_000
_LONGEST_LEASE_S = 86_400
_LONGEST_TTL_MS = 2**53
_FILES = ("memory", "sqlite")
_ENCODED = re.compile(r"(?:[^@/?#\[\]\s%]|%[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, slots=True)
class Terms:
    """How long an owner's lease runs, and how long records are kept.

    `ttl_ms` is `None` for a journal that forgets nothing.
    """

    lease_ms: int
    ttl_ms: int | None

    @property
    def heartbeat_ms(self) -> int:
        """How often an owner extends its lease."""
        return max(1, self.lease_ms // 3)


@dataclass(frozen=True, slots=True)
class JournalUri:
    """A parsed journal URI.

    Attributes:
        scheme: the part before `://`, in lower case.
        raw: the whole URI, as given. May hold a password.
        shown: scheme, user, host and path: what errors and logs may say.
        options: the query's options.
    """

    scheme: str
    shown: str
    raw: str = field(repr=False)
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, uri: str) -> JournalUri:
        """Read a URI. Raises `JournalOpenError` for what is none."""
        scheme, separator, _ = uri.partition("://")
        if not separator or not scheme:
            raise JournalOpenError("a journal is named by a URI such as sqlite:///journal.db; this one has no scheme")
        _require_encoded(uri)
        parts = urlsplit(uri)
        return cls(
            scheme=scheme.lower(),
            shown=_without_secrets(uri),
            raw=uri,
            options=dict(parse_qsl(parts.query, keep_blank_values=True)),
        )

    @property
    def location(self) -> str:
        """What stands between `://` and the options, percent-decoded."""
        rest = self.raw.partition("://")[2]
        return unquote(rest.partition("?")[0])

    def check_options(self, known: Iterable[str]) -> None:
        """Raises `JournalOpenError` when an option is not one of `known`."""
        unknown = sorted(set(self.options) - set(known))
        if unknown:
            raise JournalOpenError(
                f"{self.shown}: unknown option {unknown[0]!r}; {self.scheme} knows {', '.join(sorted(known))}"
            )

    def number(self, name: str, default: float, *, least: float) -> float:
        """A numeric option of at least `least`. Raises `JournalOpenError` for anything else."""
        text = self.options.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not value >= least:
            raise JournalOpenError(f"{self.shown}: {name}={text!r} must be a number of at least {least:g}")
        return value

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """An option out of `allowed`, in any case. Raises `JournalOpenError` for anything else."""
        text = self.options.get(name, default).upper()
        if text not in allowed:
            raise JournalOpenError(f"{self.shown}: {name}={text!r} must be one of {', '.join(allowed)}")
        return text

    def terms(self) -> Terms:
        """Lease and time to live: `lease_s` (default 30) and `ttl_h` (default 168; `inf` keeps everything)."""
        ttl_h = self.number("ttl_h", 168, least=0)
        lease_s = self.number("lease_s", 30, least=0.01)
        if lease_s > _LONGEST_LEASE_S:
            raise JournalOpenError(
                f"{self.shown}: lease_s={lease_s:g} must be at most {_LONGEST_LEASE_S}, or the dead are never noticed"
            )
        ttl_ms = None if math.isinf(ttl_h) else int(min(ttl_h * _HOUR_MS, _LONGEST_TTL_MS))
        return Terms(lease_ms=int(lease_s * 1000), ttl_ms=ttl_ms)

    def without_options(self, names: Iterable[str]) -> str:
        """The URI, password included, without the options that only we understand."""
        parts = urlsplit(self.raw)
        kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in names]
        return urlunsplit(parts._replace(query=urlencode(kept)))


def _require_encoded(uri: str) -> None:
    """Raises before anything else reads, and then repeats, a part of a password as a host or an option."""
    scheme, _, rest = uri.partition("://")
    credentials, at, _ = rest.rpartition("@")
    if at and scheme.lower() not in _FILES and not _ENCODED.fullmatch(credentials):
        raise JournalOpenError(
            f"{scheme.lower()}://…: user and password must be percent-encoded (%40 for @, %2F for /, %3F for ?, "
            "%23 for #, %25 for %), and so must an @ in an option"
        )


def _without_secrets(uri: str) -> str:
    head, _, rest = uri.partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    credentials, at, place = rest.rpartition("@")
    user = credentials.partition(":")[0] if ":" in credentials else "***" * bool(at)
    return f"{head.lower()}://{user}{at}{place}"
