"""How long an endpoint asks to wait, in every form it says so. Nothing here ever raises."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

__all__ = ["retry_after_ms"]

_AMOUNT = r"(\d+(?:\.\d+)?) ?(ms|milliseconds?|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?)(?![a-z])"
_HINT = re.compile(rf"(?:try again|retry) (?:in|after) ((?:{_AMOUNT}\s*){{1,4}})", re.IGNORECASE | re.ASCII)
_PART = re.compile(_AMOUNT, re.IGNORECASE | re.ASCII)
_UNIT_MS = {"s": 1_000.0, "m": 60_000.0, "h": 3_600_000.0}


def retry_after_ms(headers: Mapping[str, str], body: Any, now_ms: int | None) -> float | None:
    """Milliseconds to wait, rounded up; `None` when the endpoint does not say so readably.

    Looks at `retry-after-ms` and `x-ms-retry-after-ms`, then at `retry-after` as seconds, then as an HTTP date
    (RFC 9110) against the response's own `Date` or else `now_ms`, then into the body: Google's `RetryInfo`,
    `retry_after` fields, OpenAI's "try again in 1.2s", Azure's "retry after 6 seconds". Negative, infinite and
    unreadable values are ignored; a past date is 0.
    """
    said = headers.get("retry-after", "")
    candidates = (
        _number(headers.get("retry-after-ms")),
        _number(headers.get("x-ms-retry-after-ms")),
        _scaled(said.partition(",")[0], 1_000.0),
        _date_ms(said, headers.get("date", ""), now_ms),
    )
    wait = next((found for found in candidates if found is not None), None)
    if wait is None:
        wait = _body_hint_ms(body)
    return None if wait is None else float(math.ceil(wait))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, str) and (not value.isascii() or "_" in value):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _scaled(value: object, factor: float) -> float | None:
    number = _number(value)
    if number is None or not math.isfinite(number * factor):
        return None
    return number * factor


def _epoch_ms(value: str) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # "-0000" reads as a naive time in UTC.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        return aware.timestamp() * 1_000
    except (ValueError, OverflowError):
        return None


def _date_ms(said: str, response_date: str, now_ms: int | None) -> float | None:
    if ":" not in said:
        return None
    due, sent = _epoch_ms(said), _epoch_ms(response_date)
    start = sent if sent is not None else now_ms
    if due is None or start is None:
        return None
    return max(0.0, due - start)


def _body_hint_ms(body: Any) -> float | None:
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, str):
        return _prose_ms(error)
    if not isinstance(error, dict):
        error = body if isinstance(body, dict) else {}
    for found in (
        _retry_info_ms(error.get("details")),
        _number(error.get("retry_after_ms")),
        _scaled(error.get("retry_after"), 1_000.0),
        _prose_ms(error.get("message") or error.get("detail")),
    ):
        if found is not None:
            return found
    return None


def _retry_info_ms(details: object) -> float | None:
    """`google.rpc.RetryInfo.retryDelay`: "1.5s", or an object of seconds and nanos."""
    for detail in details if isinstance(details, list) else ():
        delay = (detail.get("retryDelay") or detail.get("retry_delay")) if isinstance(detail, dict) else None
        if isinstance(delay, dict):
            seconds, nanos = _scaled(delay.get("seconds", 0), 1_000.0), _scaled(delay.get("nanos", 0), 1e-6)
            return None if seconds is None or nanos is None else seconds + nanos
        if isinstance(delay, str):
            return _scaled(delay.removesuffix("s"), 1_000.0)
    return None


def _prose_ms(message: object) -> float | None:
    found = _HINT.search(message[:2_000]) if isinstance(message, str) else None
    if found is None:
        return None
    parts = [_scaled(amount, _unit_ms(unit.lower())) for amount, unit in _PART.findall(found.group(1))]
    return sum(part for part in parts if part is not None) if parts else None


def _unit_ms(unit: str) -> float:
    return 1.0 if unit.startswith(("ms", "mil")) else _UNIT_MS[unit[0]]
