"""The tree of errors, what they carry through pickle, and what their messages say."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import beam_agents.errors as errors
from beam_agents.errors import (
    ActivationTimeout,
    AnswerNotJournaledError,
    BudgetExceeded,
    CircuitOpenError,
    ConnectionBroken,
    DivergenceError,
    EndpointUnreachable,
    InDoubtError,
    JournalError,
    JournalOpenError,
    OutputSchemaError,
    ProviderError,
    ProviderRequestError,
    ProviderTimeout,
    RateLimitError,
    ResponseDecodeError,
    SchemaNotExpressibleError,
    ServerError,
    StateTooLargeError,
    UnreadableAnswer,
)
from beam_agents.values import TokenUsage

EXAMPLES = [
    ProviderError("x", code="c", request_id="r"),
    RateLimitError(1_500, status=430, code="slow_down", request_id="r-1"),
    ServerError(503, retry_after_ms=20, message="custom", code="c", request_id="r-2"),
    EndpointUnreachable("no such host"),
    ConnectionBroken(),
    UnreadableAnswer(200, request_id="r-3", retry_after_ms=5),
    ProviderTimeout("slow", status=408, retry_after_ms=7, code="c", request_id="r-4"),
    ProviderRequestError(404, code="model_not_found", request_id="r-5"),
    SchemaNotExpressibleError("openai", "items[].price", "no decimals"),
    ResponseDecodeError("no choices"),
    OutputSchemaError("bad", reason="truncated", text="{", usage=TokenUsage(1, 2, 3, 4, 5), finish_reason="length"),
    CircuitOpenError("https://llm.example", retry_in_ms=250),
    BudgetExceeded(limit=10, consumed=11),
    JournalError("down"),
    JournalOpenError("locked"),
    AnswerNotJournaledError("lost", response=b"\x00\xff", usage=TokenUsage(1, 2, 3), attempt_id="k:1"),
    DivergenceError(("messages[3].content", "model")),
    InDoubtError(("k:1", "k:2"), deferred=True),
    ActivationTimeout(2.5),
    StateTooLargeError(200_000, 100_000),
]


def fields(error: BaseException) -> tuple:
    return type(error), error.args, str(error), vars(error)


# The tree


def test_every_error_has_an_example_here():
    declared = {value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)}
    assert {cls for cls in declared if not cls.__name__.startswith("_")} == {type(error) for error in EXAMPLES}


def test_everything_public_is_exported_in_order():
    assert errors.__all__ == sorted(errors.__all__)
    assert {type(error).__name__ for error in EXAMPLES} == set(errors.__all__) - {"SchemaFailure"}


def test_the_drawing_on_top_shows_every_error_under_its_parent():
    drawn: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").split("::", 1)[1].splitlines():
        name = line.lstrip(" │├└─").split(" ")[0]
        if not hasattr(errors, name):
            continue
        depth = line.index(name)
        parents = [parent for parent in parents if parent[0] < depth]
        drawn[name] = parents[-1][1] if parents else "Exception"
        parents.append((depth, name))
    assert set(drawn) == {type(error).__name__ for error in EXAMPLES}
    for name, parent in drawn.items():
        expected = Exception if parent == "Exception" else getattr(errors, parent)
        assert issubclass(getattr(errors, name), expected)
        others = {
            other for other in drawn if other != name and issubclass(getattr(errors, name), getattr(errors, other))
        }
        assert others <= {parent} | {drawn.get(parent)}


@pytest.mark.parametrize(
    "error",
    [
        ProviderRequestError(400),
        SchemaNotExpressibleError("v", "f", "r"),
        ResponseDecodeError("x"),
        OutputSchemaError("x", reason="no_text"),
        CircuitOpenError("e"),
        BudgetExceeded(limit=1, consumed=2),
        JournalError("x"),
        ActivationTimeout(1),
    ],
)
def test_what_a_retry_cannot_mend_is_no_provider_error(error):
    assert not isinstance(error, ProviderError)


# Travelling


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_pickles_with_all_its_fields(error, protocol):
    assert fields(pickle.loads(pickle.dumps(error, protocol))) == fields(error)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_error_copies_with_all_its_fields(error):
    assert fields(copy.copy(error)) == fields(error)
    assert fields(copy.deepcopy(error)) == fields(error)


class QuotaError(RateLimitError):
    """A user's own error with a constructor of its own."""

    def __init__(self, tenant: str) -> None:
        super().__init__(900, message=f"tenant {tenant} is over its quota")
        self.tenant = tenant


def test_a_subclass_with_a_constructor_of_its_own_pickles():
    error = QuotaError("acme")
    again = pickle.loads(pickle.dumps(error))
    assert fields(again) == fields(error)
    assert (again.tenant, again.retry_after_ms) == ("acme", 900)


def test_notes_travel_too():
    error = ServerError(500)
    error.add_note("while classifying")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while classifying"]


def test_every_error_travels_as_beam_pickles_it_local_classes_included():
    from apache_beam.internal.cloudpickle import cloudpickle

    class LocalError(OutputSchemaError):
        def __init__(self, hint: str) -> None:
            super().__init__(hint, reason="refused")
            self.hint = hint

    for error in (*EXAMPLES, QuotaError("acme")):
        assert fields(cloudpickle.loads(cloudpickle.dumps(error))) == fields(error)
    local = cloudpickle.loads(cloudpickle.dumps(LocalError("h")))
    assert (local.hint, local.reason, str(local)) == ("h", "refused", "h")


# Defaults and messages


@pytest.mark.parametrize(
    ("error", "in_doubt"),
    [
        (ProviderError(), False),
        (RateLimitError(), False),
        (ServerError(500), False),
        (ServerError(), True),
        (EndpointUnreachable(), False),
        (ConnectionBroken(), True),
        (UnreadableAnswer(), True),
        (ProviderTimeout(), True),
        (ProviderTimeout(status=408), False),
        (ProviderRequestError(400), False),
        (SchemaNotExpressibleError("v", "f", "r"), False),
    ],
)
def test_an_error_says_whether_its_request_is_in_doubt(error, in_doubt):
    assert error.in_doubt is in_doubt


def test_a_rate_limit_is_a_429_and_knows_no_wait_by_default():
    error = RateLimitError()
    assert (error.status, error.retry_after_ms) == (429, None)
    assert str(error) == "the endpoint limits the rate (status 429)"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RateLimitError(3_600_000), "the endpoint limits the rate (status 429); it asks to wait 3600000 ms"),
        (RateLimitError(1234567.5), "the endpoint limits the rate (status 429); it asks to wait 1234567.5 ms"),
        (RateLimitError(1_500.0), "the endpoint limits the rate (status 429); it asks to wait 1500 ms"),
        (ServerError(502), "the endpoint failed with status 502"),
        (ServerError(), "the endpoint failed without a status"),
        (UnreadableAnswer(), "the endpoint answered status 200 with a body that is not JSON"),
        (ProviderRequestError(401), "the endpoint refused the request with status 401"),
        (ProviderRequestError(400, code="bad"), "the endpoint refused the request with status 400 (bad)"),
        (CircuitOpenError("e"), "the circuit of e is open, nothing was sent"),
        (
            CircuitOpenError("e", retry_in_ms=1_800_000),
            "the circuit of e is open, nothing was sent; the next trial is due in 1800000 ms",
        ),
        (BudgetExceeded(limit=10, consumed=11), "the activation consumed 11 tokens, its limit is 10"),
        (ActivationTimeout(1_000_000.0), "the activation did not finish within 1000000 s"),
        (StateTooLargeError(9, 8), "ctx.state takes 9 bytes as JSON, at most 8 are kept"),
        (
            InDoubtError(("k:1", "k:2")),
            "2 earlier request(s) for this call may have been served and billed (k:1, k:2); "
            "on_in_doubt=fail forbids a new one",
        ),
    ],
)
def test_messages_say_what_happened_with_which_value(error, message):
    assert str(error) == message


@pytest.mark.parametrize("wait", [float("nan"), float("inf"), -1, 10**400])
def test_a_wait_that_makes_no_sense_never_keeps_the_error_from_being_raised(wait):
    assert "limits the rate" in str(RateLimitError(wait))
    assert "next trial" in str(CircuitOpenError("e", retry_in_ms=wait))


def test_no_message_shows_an_answer():
    error = OutputSchemaError("bad", reason="invalid_json", text="private")
    lost = AnswerNotJournaledError("lost", response=b"private")
    assert "private" not in f"{error}{error!r}{lost}{lost!r}"
