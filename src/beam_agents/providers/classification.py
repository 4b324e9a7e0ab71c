"""The one table that says what an endpoint's answer means, by status and machine-readable code only.

| answer | raises |
|---|---|
| 429, code says that no money is left | `ProviderRequestError` |
| 429 | `RateLimitError` |
| 408 | `ProviderTimeout` |
| 409, 425, 499, every status from 500 | `ServerError` |
| any other status from 300 | `ProviderRequestError` |
| 2xx, not JSON | `UnreadableAnswer` |
| 2xx, an error envelope | as the status that its code or type stands for; `ServerError` when it stands for none |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from beam_agents.errors import (
    ProviderError,
    ProviderRequestError,
    ProviderTimeout,
    RateLimitError,
    ServerError,
    UnreadableAnswer,
)
from beam_agents.providers.envelope import Envelope, error_envelope
from beam_agents.providers.json_body import parse_body
from beam_agents.providers.redaction import identifier, redacted_message
from beam_agents.providers.retry_after import retry_after_ms

__all__ = ["Asked", "WireAnswer", "accepted_body"]

_RETRIED_4XX = frozenset({409, 425, 499})
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-ms-request-id")

_NO_MONEY = re.compile(
    r"arrearage|billing|credits?_exhausted|exceeded_current_quota|insufficient\w*_(?:balance|credits?|funds|quota)"
    r"|out_of_credits?|payment_required|spend(?:ing)?_limit",
    re.IGNORECASE,
)


class WireAnswer(NamedTuple):
    """One HTTP answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Asked(NamedTuple):
    """What was asked, as far as an error message must hide or name it."""

    endpoint: str
    messages: Sequence[Any]
    key: str | None
    now_ms: Callable[[], int] | None


def accepted_body(answer: WireAnswer, asked: Asked) -> bytes:
    """The bytes of a successful answer, verbatim.

    Raises:
        RateLimitError, ServerError, ProviderTimeout, ProviderRequestError: by the table above.
    """
    succeeded = 200 <= answer.status < 300
    try:
        body = parse_body(answer.body)
    except ValueError:
        if succeeded:
            raise UnreadableAnswer(
                answer.status,
                message=_not_json(answer, asked),
                request_id=_request_id(answer.headers, None),
                retry_after_ms=retry_after_ms(answer.headers, None, _now(asked)),
            ) from None
        body = None
    # Google's streaming front ends wrap an error into a list.
    if isinstance(body, list) and body and (not succeeded or (isinstance(body[0], dict) and "error" in body[0])):
        body = body[0]
    envelope = error_envelope(body, succeeded)
    if succeeded and envelope is None:
        return answer.body
    raise _failure(answer, body, envelope or Envelope(), asked)


def _failure(answer: WireAnswer, body: Any, envelope: Envelope, asked: Asked) -> ProviderError | ProviderRequestError:
    status = answer.status if answer.status >= 300 else envelope.status
    code = identifier(envelope.code)
    request_id = _request_id(answer.headers, body)
    wait = retry_after_ms(answer.headers, body, _now(asked))
    message = _message(answer.status, code, request_id, envelope, asked)
    if status in (402, 429) and _out_of_money(envelope):
        return ProviderRequestError(status, message=message, code=code, request_id=request_id)
    if status == 429:
        return RateLimitError(wait, status=status, message=message, code=code, request_id=request_id)
    if status == 408:
        return ProviderTimeout(message, status=status, retry_after_ms=wait, code=code, request_id=request_id)
    if status is None or status >= 500 or status in _RETRIED_4XX:
        status = answer.status if status is None else status
        return ServerError(status, retry_after_ms=wait, message=message, code=code, request_id=request_id)
    return ProviderRequestError(status, message=message, code=code, request_id=request_id)


def _out_of_money(envelope: Envelope) -> bool:
    return any(isinstance(word, str) and _NO_MONEY.search(word) for word in (envelope.code, envelope.kind))


def _now(asked: Asked) -> int | None:
    return None if asked.now_ms is None else asked.now_ms()


def _request_id(headers: Mapping[str, str], body: Any) -> str | None:
    for name in _REQUEST_ID_HEADERS:
        if name in headers:
            return identifier(headers[name], 128)
    return identifier(body.get("request_id"), 128) if isinstance(body, Mapping) else None


def _message(status: int, code: str | None, request_id: str | None, envelope: Envelope, asked: Asked) -> str:
    parts = [f"{asked.endpoint} answered status {status}"]
    if code is not None:
        parts.append(f"code {code}")
    if (param := identifier(envelope.param)) is not None and param not in ("None", "null"):
        parts.append(f"parameter {redacted_message(param, asked.messages, asked.key)}")
    if request_id is not None:
        parts.append(f"request {request_id}")
    said = redacted_message(envelope.message, asked.messages, asked.key)
    redirected = "; redirects are not followed: set base_url to where the API is" if 300 <= status < 400 else ""
    return ", ".join(parts) + (f": {said}" if said else "") + redirected


def _not_json(answer: WireAnswer, asked: Asked) -> str:
    kind = identifier(answer.headers.get("content-type", "no content type").split(";")[0])
    return (
        f"{asked.endpoint} answered status {answer.status} with {len(answer.body)} bytes ({kind}) that are not JSON; "
        "check that base_url is the API and not a web page or a proxy"
    )
