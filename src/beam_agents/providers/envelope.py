"""Finds the error envelope in a JSON body, in the shapes that vendors and gateways use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Envelope", "error_envelope"]

_STATUS_OF_WORD = {
    # Anthropic
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    # OpenAI and servers shaped like it
    "bad_request": 400,
    "badrequesterror": 400,
    "context_length_exceeded": 400,
    "invalid_api_key": 401,
    "authenticationerror": 401,
    "model_not_found": 404,
    "notfounderror": 404,
    "insufficient_quota": 429,
    "insufficient_balance": 402,
    "rate_limit_exceeded": 429,
    "ratelimiterror": 429,
    "request_timeout": 408,
    "internal_error": 500,
    "internalservererror": 500,
    "internal_server_error": 500,
    "server_error": 500,
    "service_unavailable": 503,
    # google.rpc.Code
    "invalid_argument": 400,
    "failed_precondition": 400,
    "out_of_range": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "aborted": 409,
    "resource_exhausted": 429,
    "cancelled": 499,
    "data_loss": 500,
    "internal": 500,
    "unknown": 500,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """What an error envelope says.

    Attributes:
        code: the vendor's code, or its type where it has no code.
        kind: the vendor's type or status word.
        param: which parameter is wrong, when it says so.
        message: its prose; may quote the prompt, so it must be redacted.
        status: the HTTP status that it stands for, or `None`.
    """

    code: object = None
    kind: object = None
    param: object = None
    message: object = None
    status: int | None = None


def error_envelope(body: Any, succeeded: bool) -> Envelope | None:
    """The error that `body` reports, or `None`.

    In a success an answer's own fields win, so that a stray `error` beside them does not cost a paid answer.
    """
    if not isinstance(body, dict):
        return None
    if succeeded and any(isinstance(body.get(name), list) and body[name] for name in ("choices", "candidates")):
        return _choice_error(body)
    if succeeded and body.get("type") == "message":
        return None
    error = _first(body.get("error"))
    if error:
        return _read(error, body)
    if body.get("type") == "error" or body.get("object") == "error":
        return _read(body, body)
    if _first(body.get("errors")):
        return _read(_first(body["errors"]), body)
    base = body.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        return _read({"code": base["status_code"], "message": base.get("status_msg")}, body)
    if "detail" in body or _is_coded(body) or (not succeeded and body):
        return _read({**body, "message": body.get("message") or body.get("msg") or body.get("detail")}, body)
    return None


def _is_coded(body: Mapping[str, Any]) -> bool:
    """`{"code": 1113, "message": ...}`: a vendor's number and its prose, nothing else."""
    return body.get("code") not in (None, 0, 200, "0", "200", "") and ("message" in body or "msg" in body)


def _choice_error(body: Mapping[str, Any]) -> Envelope | None:
    """A gateway's report that the model behind it failed: `{"choices": [{"error": {...}, "message": ...}]}`."""
    first = body["choices"][0] if body.get("choices") else None
    error = first.get("error") if isinstance(first, dict) else None
    return _read(error, body) if isinstance(error, dict) and error else None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _read(error: Any, body: Mapping[str, Any]) -> Envelope:
    if not isinstance(error, dict):
        code = body.get("code")
        return Envelope(code=code, message=error, status=_status_of(code))
    kind = error.get("status") or error.get("type") or body.get("type")
    code = error.get("code")
    # Google's `code` repeats the HTTP status; its `status` is the code.
    named = kind if kind and (code is None or isinstance(error.get("status"), str)) else code
    statuses = (_status_of(code), _status_of(kind), _status_of(error.get("status_code") or body.get("code")))
    return Envelope(
        code=named,
        kind=kind,
        param=error.get("param"),
        message=error.get("message") or error.get("detail"),
        status=next((status for status in statuses if status is not None), None),
    )


def _status_of(word: object) -> int | None:
    if isinstance(word, str) and not word.isdigit():
        return _STATUS_OF_WORD.get(word.casefold())
    if isinstance(word, bool) or not isinstance(word, (int, str)):
        return None
    number = int(word) if len(str(word)) <= 4 else 0
    return number if 300 <= number < 600 else None
