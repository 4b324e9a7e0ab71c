"""Every error that beam-agents raises.

::

    Exception
    ├── ProviderError                the endpoint, or the way to it, failed
    │   ├── RateLimitError             retried: the endpoint asks for patience
    │   ├── ServerError                retried: the endpoint answered with a fault of its own
    │   │   ├── EndpointUnreachable      never connected: nothing was sent
    │   │   ├── ConnectionBroken         reset, cut or damaged: the request is in doubt
    │   │   └── UnreadableAnswer         success status, but no JSON: the request is in doubt
    │   └── ProviderTimeout            retried: no answer in time; the request is in doubt
    ├── ProviderRequestError         the request is wrong or will never be served; never retried
    ├── SchemaNotExpressibleError    the vendor's wire cannot carry the output schema; nothing was sent
    ├── ResponseDecodeError          an answer without the promised shape
    ├── OutputSchemaError            a paid answer that does not satisfy the output schema
    ├── CircuitOpenError             the circuit of the endpoint is open; nothing was sent
    ├── BudgetExceeded               the activation used more tokens than it may
    ├── JournalError                 the journal could not keep its promise
    │   ├── JournalOpenError           it cannot be opened (locked, corrupt, newer, …)
    │   ├── AnswerNotJournaledError    an answer arrived and could not be made durable
    │   ├── DivergenceError            another request than the journal knows at this position
    │   └── InDoubtError               an earlier request is in doubt and the policy forbids a new one
    ├── ActivationTimeout            the activation reached its deadline
    └── StateTooLargeError           the agent's own state is larger than it may be

One class for each decision that a caller makes. Errors pickle with all their fields and hold neither
prompts nor credentials; only `OutputSchemaError.text` and `AnswerNotJournaledError.response` hold a model's
answer, and no message shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from beam_agents.values import TokenUsage

__all__ = [
    "ActivationTimeout",
    "AnswerNotJournaledError",
    "BudgetExceeded",
    "CircuitOpenError",
    "ConnectionBroken",
    "DivergenceError",
    "EndpointUnreachable",
    "InDoubtError",
    "JournalError",
    "JournalOpenError",
    "OutputSchemaError",
    "ProviderError",
    "ProviderRequestError",
    "ProviderTimeout",
    "RateLimitError",
    "ResponseDecodeError",
    "SchemaFailure",
    "SchemaNotExpressibleError",
    "ServerError",
    "StateTooLargeError",
    "UnreadableAnswer",
]

SchemaFailure = Literal["invalid_json", "schema_violation", "truncated", "refused", "no_text"]

_E = TypeVar("_E", bound=BaseException)


def _rebuild(cls: type[_E], args: tuple[Any, ...], fields: dict[str, Any]) -> _E:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


def _plain(number: float) -> str:
    """A number in full, whatever its size; whole ones without a fraction."""
    return str(number).removesuffix(".0")


class _Picklable(Exception):
    """Pickles by its fields, whatever the signature of its constructor."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class ProviderError(_Picklable):
    """The endpoint, or the way to it, failed.

    Not retried itself: only `RateLimitError`, `ServerError`, `ProviderTimeout` and their subclasses are.

    Attributes:
        status: HTTP status, or `None` where there was none.
        code: the vendor's machine-readable code, when it gave one.
        request_id: the vendor's id of the request, when it gave one.
        retry_after_ms: how long the endpoint asks to wait, in milliseconds.
        in_doubt: whether the endpoint may have served the request although no readable answer came back.
    """

    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    retry_after_ms: float | None = None
    in_doubt: bool = False

    def __init__(
        self, message: str = "the provider failed", *, code: str | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.request_id = request_id


class RateLimitError(ProviderError):
    """The endpoint refuses for now; `retry_after_ms` is a lower bound on the wait, when it gave one."""

    def __init__(
        self,
        retry_after_ms: float | None = None,
        *,
        status: int | None = 429,
        message: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        wait = "" if retry_after_ms is None else f"; it asks to wait {_plain(retry_after_ms)} ms"
        super().__init__(
            message or f"the endpoint limits the rate (status {status}){wait}", code=code, request_id=request_id
        )
        self.retry_after_ms = retry_after_ms
        self.status = status


class ServerError(ProviderError):
    """The endpoint failed to serve the request; `status` is `None` where no status arrived."""

    def __init__(
        self,
        status: int | None = None,
        *,
        retry_after_ms: float | None = None,
        message: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        said = "without a status" if status is None else f"with status {status}"
        super().__init__(message or f"the endpoint failed {said}", code=code, request_id=request_id)
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.in_doubt = status is None


class EndpointUnreachable(ServerError):
    """No connection could be made (refused, no such host, TLS failure): nothing was sent."""

    def __init__(self, message: str = "the endpoint cannot be reached; nothing was sent") -> None:
        super().__init__(None, message=message)
        self.in_doubt = False


class ConnectionBroken(ServerError):
    """The connection was reset, cut short or damaged after the request may have left."""

    def __init__(self, message: str = "the connection broke before a whole answer arrived") -> None:
        super().__init__(None, message=message)


class UnreadableAnswer(ServerError):
    """A success status whose body is not JSON (HTML, empty, cut); partial bytes are never kept."""

    def __init__(
        self,
        status: int | None = 200,
        *,
        message: str | None = None,
        request_id: str | None = None,
        retry_after_ms: float | None = None,
    ) -> None:
        super().__init__(
            status,
            message=message or f"the endpoint answered status {status} with a body that is not JSON",
            request_id=request_id,
            retry_after_ms=retry_after_ms,
        )
        self.in_doubt = True


class ProviderTimeout(ProviderError):
    """No answer arrived in time."""

    def __init__(
        self,
        message: str = "the endpoint did not answer in time",
        *,
        status: int | None = None,
        retry_after_ms: float | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, code=code, request_id=request_id)
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.in_doubt = status is None


class ProviderRequestError(_Picklable):
    """The endpoint will not serve this request (4xx, exhausted quota, refused schema); never retried."""

    in_doubt = False

    def __init__(
        self,
        status: int | None,
        *,
        message: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        named = "" if code is None else f" ({code})"
        super().__init__(message or f"the endpoint refused the request with status {status}{named}")
        self.status = status
        self.code = code
        self.request_id = request_id


class SchemaNotExpressibleError(_Picklable, ValueError):
    """A vendor's structured output cannot carry the output schema; raised before anything is sent.

    Attributes:
        vendor: whose rules forbid it, such as `openai`.
        field: path of the field in the schema, such as `tags` or `items[].price`; `$` is the root.
        reason: what cannot be expressed, and what to do instead.
    """

    in_doubt = False

    def __init__(self, vendor: str, field: str, reason: str) -> None:
        super().__init__(f"{vendor} cannot be asked for this output schema: field {field!r}: {reason}")
        self.vendor = vendor
        self.field = field
        self.reason = reason


class ResponseDecodeError(_Picklable):
    """A whole JSON answer that lacks the shape its API promises; not retried, never stored."""


class OutputSchemaError(_Picklable):
    """A paid answer that does not satisfy the output schema.

    Attributes:
        reason: `invalid_json`, `schema_violation`, `truncated`, `refused` or `no_text`.
        text: the model's answer, or `None`. No message shows it.
        usage: what the answer cost, or `None` when the endpoint did not say.
        finish_reason: why the model stopped, in the neutral vocabulary, or `None`.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: SchemaFailure,
        text: str | None = None,
        usage: TokenUsage | None = None,
        finish_reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.text = text
        self.usage = usage
        self.finish_reason = finish_reason


class CircuitOpenError(_Picklable):
    """The circuit of `endpoint` is open: nothing was sent.

    `retry_in_ms` says after how long the next trial is due, when that is known.
    """

    def __init__(self, endpoint: str, *, retry_in_ms: float | None = None) -> None:
        due = "" if retry_in_ms is None else f"; the next trial is due in {_plain(retry_in_ms)} ms"
        super().__init__(f"the circuit of {endpoint} is open, nothing was sent{due}")
        self.endpoint = endpoint
        self.retry_in_ms = retry_in_ms


class BudgetExceeded(_Picklable):
    """The activation consumed `consumed` tokens; its limit is `limit`."""

    def __init__(self, *, limit: int, consumed: int) -> None:
        super().__init__(f"the activation consumed {consumed} tokens, its limit is {limit}")
        self.limit = limit
        self.consumed = consumed


class JournalError(_Picklable):
    """The journal could not keep its promise; the message says which and what to do."""


class JournalOpenError(JournalError):
    """The journal cannot be opened: locked, read-only, corrupt, full, or written by a newer version."""


class AnswerNotJournaledError(JournalError):
    """An answer arrived, and was paid, but could not be made durable before the deadline.

    `response` are its bytes, so that they are not lost; `usage` is what it cost, when known.
    """

    def __init__(self, message: str, *, response: bytes, usage: TokenUsage | None = None, attempt_id: str = "") -> None:
        super().__init__(message)
        self.response = response
        self.usage = usage
        self.attempt_id = attempt_id


class DivergenceError(JournalError):
    """The activation asks something else than it did at this position in an earlier run.

    `changed` names the parts of the request that differ, such as `messages[3].content`.
    """

    def __init__(self, changed: tuple[str, ...]) -> None:
        super().__init__(
            f"the request differs from the one that the journal knows at this position in {', '.join(changed)}; "
            "make the agent ask the same again, choose a fresh namespace, or set on_divergence"
        )
        self.changed = changed


class InDoubtError(JournalError):
    """An earlier request for this call is in doubt, and `on_in_doubt` forbids a new one.

    `attempt_ids` names the requests in doubt; `deferred` is true under `defer`: run it again later.
    """

    def __init__(self, attempt_ids: tuple[str, ...], *, deferred: bool = False) -> None:
        super().__init__(
            f"{len(attempt_ids)} earlier request(s) for this call may have been served and billed "
            f"({', '.join(attempt_ids)}); on_in_doubt={'defer' if deferred else 'fail'} forbids a new one"
        )
        self.attempt_ids = attempt_ids
        self.deferred = deferred


class ActivationTimeout(_Picklable):
    """The activation did not finish within `timeout_s` seconds."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"the activation did not finish within {_plain(timeout_s)} s")
        self.timeout_s = timeout_s


class StateTooLargeError(_Picklable):
    """The agent's state takes `size_bytes` bytes as JSON; at most `limit_bytes` are kept."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"ctx.state takes {size_bytes} bytes as JSON, at most {limit_bytes} are kept")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
