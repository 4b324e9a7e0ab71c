"""What tokens cost: the offline table of genai-prices, and prices that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
from genai_prices import Usage, calc_price
from genai_prices.types import PriceCalculation

from beam_agents.values import TokenUsage

__all__ = ["ModelRate", "PriceBook", "Priced"]

_MTOK: Final = Decimal(1_000_000)
_HOUR_MS: Final = 3_600_000
_PROBES: Final = (TokenUsage(1_000, 100, 1_100, 300), TokenUsage(3_000_000, 700_000, 3_700_000, 1_000_000))

Priced: TypeAlias = Decimal | None
"""An amount of money, or `None` where no price is known. Unknown is never zero."""


@dataclass(frozen=True, slots=True)
class ModelRate:
    """Prices of one model for a million tokens. Cached input tokens cost `cached` when it is given."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None

    def price(self, usage: TokenUsage) -> Decimal:
        """What `usage` costs."""
        cached = usage.cached_tokens or 0 if self.cached is not None else 0
        fresh = max(0, usage.prompt_tokens - cached)
        return (fresh * self.input + cached * (self.cached or 0) + usage.completion_tokens * self.output) / _MTOK


class PriceBook:
    """Prices calls at the date they were made.

    A price that the user gave for a model comes first. Otherwise genai-prices is asked, offline: by the address
    of the endpoint, then by the provider's name. A currency other than USD uses the user's prices only.
    """

    def __init__(self, rates: Mapping[str, ModelRate] | None = None, *, currency: str = "USD") -> None:
        self.currency = currency
        self._rates = dict(rates or {})

    @classmethod
    def from_file(cls, path: str) -> PriceBook:
        """Read `{"currency": "USD", "models": {"NAME": {"input": 0.15, "output": 0.6, "cached": 0.075}}}`.

        Prices are for a million tokens.

        Raises:
            ValueError: when the file does not have this form; the message says where.
        """
        try:
            read = orjson.loads(Path(path).read_bytes())
            rates = {name: _rate(name, rate) for name, rate in read["models"].items()}
            return cls(rates, currency=str(read.get("currency", "USD")))
        except (KeyError, TypeError, AttributeError, orjson.JSONDecodeError) as error:
            raise ValueError(
                f'{path}: prices must look like {{"models": {{"NAME": {{"input": 0.15, "output": 0.6}}}}}}: {error!r}'
            ) from error

    @property
    def source(self) -> str:
        """Where the prices come from, for people."""
        own = f"{len(self._rates)} given price(s)" if self._rates else ""
        table = f"genai-prices {version('genai-prices')}, its bundled table" if self.currency == "USD" else ""
        return ", then ".join(part for part in (own, table) if part) or "no prices"

    def price(self, usage: TokenUsage, *, model: str, provider: str, endpoint: str, at_ms: int) -> Priced:
        """What `usage` of `model` cost at `at_ms`, in `currency`, or `None` when no price is known."""
        given = self._rates.get(model)
        if given is not None:
            return given.price(usage)
        if self.currency != "USD" or not model:
            return None
        host = endpoint.rpartition(":")[0] or endpoint
        hour = at_ms // _HOUR_MS
        rate = _linear_rate(model, provider, host, hour)
        if isinstance(rate, ModelRate):
            return rate.price(usage)
        return None if rate is None else _looked_up(usage, model, provider, host, hour)


def _rate(name: str, given: Mapping[str, Any]) -> ModelRate:
    try:
        prices = {part: Decimal(str(given[part])) for part in ("input", "output", "cached") if part in given}
        if any(not price.is_finite() or price < 0 for price in prices.values()):
            raise ValueError(f"a price of {name} is negative or not finite")
        return ModelRate(**prices)
    except InvalidOperation as error:
        raise ValueError(f"a price of {name} is not a number: {given!r:.80}") from error


@lru_cache(maxsize=4096)
def _linear_rate(model: str, provider: str, host: str, hour: int) -> ModelRate | str | None:
    """The rate, `"tiered"` where the price of a token depends on how many there are, `None` for unknown."""
    found = _calculate(_PROBES[0], model, provider, host, hour)
    if found is None:
        return None
    parts = (found.model_price.input_mtok, found.model_price.output_mtok, found.model_price.cache_read_mtok)
    if not all(part is None or isinstance(part, Decimal) for part in parts):
        return "tiered"
    rate = ModelRate(parts[0] or Decimal(0), parts[1] or Decimal(0), parts[2])  # type: ignore[arg-type]
    agrees = all(rate.price(probe) == _looked_up(probe, model, provider, host, hour) for probe in _PROBES)
    return rate if agrees else "tiered"


@lru_cache(maxsize=65_536)
def _looked_up(usage: TokenUsage, model: str, provider: str, host: str, hour: int) -> Priced:
    found = _calculate(usage, model, provider, host, hour)
    return None if found is None else found.total_price


def _calculate(usage: TokenUsage, model: str, provider: str, host: str, hour: int) -> PriceCalculation | None:
    counts = Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=min(usage.cached_tokens or 0, usage.prompt_tokens),
    )
    try:
        at = datetime.fromtimestamp(hour * 3600, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    for where in ({"provider_api_url": f"https://{host}"}, {"provider_id": provider}):
        try:
            return calc_price(counts, model, genai_request_timestamp=at, **where)  # type: ignore[call-overload,no-any-return]
        except (LookupError, ValueError):
            continue
    return None
