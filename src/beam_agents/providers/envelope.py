"""Finds the error envelope in a JSON body, in the shapes that vendors and gateways use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Envelope", "error_envelope"]

# Words without case, separators, and "Error" or "Exception" at their end; several vendors spell each in several ways.
_STATUS_OF_WORD = {
    "badrequest": 400,
    "contentfilter": 400,
    "contentpolicyviolation": 400,
    "contextlengthexceeded": 400,
    "failedprecondition": 400,
    "invalidargument": 400,
    "invalidparameter": 400,
    "invalidprompt": 400,
    "invalidrequest": 400,
    "outofrange": 400,
    "validation": 400,
    "authentication": 401,
    "invalidapikey": 401,
    "unauthenticated": 401,
    "unauthorized": 401,
    "billing": 402,
    "insufficientbalance": 402,
    "paymentrequired": 402,
    "accessdenied": 403,
    "forbidden": 403,
    "permission": 403,
    "permissiondenied": 403,
    "modelnotfound": 404,
    "notfound": 404,
    "requesttimeout": 408,
    "aborted": 409,
    "alreadyexists": 409,
    "conflict": 409,
    "requesttoolarge": 413,
    "unprocessableentity": 422,
    "insufficientquota": 429,
    "ratelimit": 429,
    "ratelimited": 429,
    "ratelimitexceeded": 429,
    "ratelimitreached": 429,
    "resourceexhausted": 429,
    "throttling": 429,
    "throttled": 429,
    "toomanyrequests": 429,
    "cancelled": 499,
    "api": 500,
    "dataloss": 500,
    "internal": 500,
    "internalfailure": 500,
    "internalserver": 500,
    "server": 500,
    "unknown": 500,
    "unimplemented": 501,
    "badgateway": 502,
    "engineoverloaded": 503,
    "serviceunavailable": 503,
    "unavailable": 503,
    "deadlineexceeded": 504,
    "gatewaytimeout": 504,
    "timeout": 504,
    "overloaded": 529,
}
_SEPARATORS = re.compile(r"[^a-z]+")
_CODE_FIELDS = ("error_code", "errorCode")
_STATUS_FIELDS = ("status", "statusCode", "status_code", *_CODE_FIELDS)
_FAILED = ("error", "fail", "failed", "failure")
_PROSE_FIELDS = ("message", "msg", "error_msg", "errorMessage", "detail", "title")


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
        return _read(body, body)
    return None


def _is_coded(body: Mapping[str, Any]) -> bool:
    """A vendor's code beside its prose, the status of a failure, or a plain word for one."""
    coded = any(body.get(name) not in (None, 0, 200, "0", "200", "") for name in ("code", *_CODE_FIELDS))
    if coded and any(name in body for name in _PROSE_FIELDS):
        return True
    failed = body.get("success") is False or body.get("status") in _FAILED
    return failed or any(_status_of(body.get(name)) is not None for name in _STATUS_FIELDS)


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
    code = next((error[name] for name in ("code", *_CODE_FIELDS) if error.get(name) is not None), None)
    # Google's `code` repeats the HTTP status; its `status` is the code.
    named = kind if kind and (code is None or isinstance(error.get("status"), str)) else code
    others = (error.get(name) for name in _STATUS_FIELDS)
    statuses = map(_status_of, (code, kind, *others, body.get("code")))
    return Envelope(
        code=named,
        kind=kind,
        param=error.get("param"),
        message=next((error[name] for name in _PROSE_FIELDS if error.get(name)), None),
        status=next((status for status in statuses if status is not None), None),
    )


def _status_of(word: object) -> int | None:
    if isinstance(word, float) and word.is_integer():
        word = int(word)
    if isinstance(word, str) and not word.isdecimal():
        plain = _SEPARATORS.sub("", word.casefold())
        return _STATUS_OF_WORD.get(plain.removesuffix("error").removesuffix("exception"))
    if isinstance(word, bool) or not isinstance(word, (int, str)):
        return None
    number = int(word) if len(str(word)) <= 4 else 0
    return number if 300 <= number < 600 else None
