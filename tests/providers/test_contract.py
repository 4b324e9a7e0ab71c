"""What every vendor's client promises, against a raw TCP server that counts."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
from typing import Any

import pytest
from apache_beam.internal.cloudpickle import cloudpickle

from beam_agents.errors import (
    ConnectionBroken,
    EndpointUnreachable,
    ProviderRequestError,
    ProviderTimeout,
    RateLimitError,
    ResponseDecodeError,
    ServerError,
    UnreadableAnswer,
)
from beam_agents.ports import CallIdentity, LLMClient, current_call
from beam_agents.providers import PROVIDERS
from beam_agents.values import LlmRequest, TokenUsage
from tests.providers.wires import KEY, PROMPT, WIRES, Wire
from tests.servers import raw_tcp
from tests.servers.raw_tcp import RawServer, Reply, answer

REQUEST = LlmRequest("test-model", [{"role": "user", "content": PROMPT}])


async def failure(wire: Wire, reply: Reply, **options: Any) -> tuple[BaseException, int]:
    """What one `complete` raises against a server that always gives `reply`, and how many requests it saw."""
    with RawServer(lambda request: reply) as server:
        client = wire.client(server.url, **options)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at the type
            await client.complete(REQUEST)
        await client.aclose()
        return caught.value, len(server.received)


def test_every_registered_provider_has_a_wire_in_this_suite():
    assert set(WIRES) == set(PROVIDERS)


async def test_an_answer_comes_back_verbatim_from_one_request(wire: Wire):
    payload = json.dumps(wire.answer("grüezi"), indent=3).encode() + b"\n"
    with RawServer(lambda request: answer(payload)) as server:
        client = wire.client(server.url)
        assert isinstance(client, LLMClient)
        response = await client.complete(REQUEST)
        await client.aclose()
    assert response.response == payload
    (seen,) = server.received
    assert seen.method == "POST"
    assert seen.path == wire.path
    assert KEY in seen.headers[wire.key_header]
    assert wire.prompt_of(seen.json) == PROMPT


async def test_the_answer_decodes(wire: Wire):
    decoded = wire.client("http://127.0.0.1:1").decode(json.dumps(wire.answer("yes")).encode())
    assert decoded.text == "yes"
    assert decoded.finish_reason == "stop"
    assert decoded.usage == TokenUsage(9, 4, 13)
    assert (decoded.response_id, decoded.response_model) == ("answer-1", "test-model-2026")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (301, ProviderRequestError),
        (307, ProviderRequestError),
        (400, ProviderRequestError),
        (401, ProviderRequestError),
        (402, ProviderRequestError),
        (403, ProviderRequestError),
        (404, ProviderRequestError),
        (408, ProviderTimeout),
        (409, ServerError),
        (413, ProviderRequestError),
        (422, ProviderRequestError),
        (425, ServerError),
        (429, RateLimitError),
        (499, ServerError),
        (500, ServerError),
        (502, ServerError),
        (503, ServerError),
        (504, ServerError),
        (520, ServerError),
        (524, ServerError),
        (529, ServerError),
        (599, ServerError),
    ],
)
@pytest.mark.parametrize("body", ["json", "html", "empty"])
async def test_a_status_is_classified_whatever_the_body(wire: Wire, status: int, expected: type, body: str):
    bodies = {
        "json": wire.error(status, "some_code", "it went wrong"),
        "html": b"<html><body>Bad Gateway</body></html>",
        "empty": b"",
    }
    error, seen = await failure(wire, answer(bodies[body], status))
    assert type(error) is expected
    assert error.status == status
    assert seen == 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("insufficient_quota", ProviderRequestError),
        ("insufficient_user_quota", ProviderRequestError),
        ("INSUFFICIENT_BALANCE", ProviderRequestError),
        ("billing_hard_limit_reached", ProviderRequestError),
        ("spending_limit_reached", ProviderRequestError),
        ("rate_limit_exceeded", RateLimitError),
        ("quota_per_minute", RateLimitError),
        ("429", RateLimitError),
    ],
)
@pytest.mark.parametrize("name", ["code", "type"])
async def test_exhausted_quota_is_not_a_rate_limit(code: str, expected: type, name: str):
    body = {"error": {"message": "You exceeded your current quota", "type": None, "code": None, name: code}}
    error, seen = await failure(WIRES["openai"], answer(body, 429))
    assert type(error) is expected
    assert (error.status, error.code, seen) == (429, code, 1)


@pytest.mark.parametrize(
    ("status", "expected"), [(429, RateLimitError), (401, ProviderRequestError), (503, ServerError)]
)
@pytest.mark.parametrize("damage", ["short", "reset", "stall", "bad gzip"])
async def test_a_failure_is_classified_by_its_status_even_if_its_body_is_damaged(
    wire: Wire, status: int, expected: type, damage: str
):
    head = f"HTTP/1.1 {status} X\r\nContent-Length: 90\r\nRetry-After: 3\r\n"
    replies = {
        "short": raw_tcp.Reply((head.encode() + b"\r\n{",), "close"),
        "reset": raw_tcp.Reply((head.encode() + b"\r\n{", b'"'), "reset", pause_s=0.05),
        "stall": raw_tcp.Reply((head.encode() + b"\r\n{",), "stall"),
        "bad gzip": raw_tcp.Reply((head.encode() + b"Content-Encoding: gzip\r\n\r\n" + b"x" * 90,)),
    }
    error, seen = await failure(wire, replies[damage], timeout_s=0.5)
    assert type(error) is expected
    assert (error.status, error.in_doubt, seen) == (status, False, 1)
    assert getattr(error, "retry_after_ms", 3000) == 3000


async def test_long_headers_do_not_cost_the_answer(wire: Wire):
    with RawServer(lambda request: answer(wire.answer("ok"), headers={"X-Policy": "p" * 30_000})) as server:
        client = wire.client(server.url)
        response = await client.complete(REQUEST)
        await client.aclose()
    assert client.decode(response.response).text == "ok"


async def test_a_byte_order_mark_does_not_cost_the_answer(wire: Wire):
    payload = b"\xef\xbb\xbf" + json.dumps(wire.answer("ok")).encode()
    with RawServer(lambda request: answer(payload)) as server:
        client = wire.client(server.url)
        response = await client.complete(REQUEST)
        await client.aclose()
    assert response.response == payload
    assert client.decode(payload).text == "ok"


@pytest.mark.parametrize(
    ("body", "expected", "status"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, ServerError, 529),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, RateLimitError, 429),
        ({"type": "error", "error": {"type": "invalid_request_error"}}, ProviderRequestError, 400),
        ({"error": {"code": 502, "message": "upstream"}}, ServerError, 502),
        ({"error": {"code": "429"}}, RateLimitError, 429),
        ({"error": {"code": 429, "type": "insufficient_quota"}}, ProviderRequestError, 429),
        ({"error": {"code": 408}}, ProviderTimeout, 408),
        ({"error": "model crashed"}, ServerError, 200),
        ({"error": {"message": "?"}, "choices": []}, ServerError, 200),
        ({"error": {"message": "?", "code": 401}, "choices": None}, ProviderRequestError, 401),
        ({"detail": "Internal failure"}, ServerError, 200),
        ({"code": 1113, "msg": "arrears"}, ServerError, 200),
        ({"base_resp": {"status_code": 1002, "status_msg": "limit"}}, ServerError, 200),
        ({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, ProviderRequestError, 400),
        ({"choices": [{"error": {"code": 503}, "message": {"content": ""}}]}, ServerError, 503),
        ({"errors": [{"code": 500, "message": "x"}]}, ServerError, 500),
        ([{"error": {"code": 503, "status": "UNAVAILABLE"}}], ServerError, 503),
        ({"title": "Too Many Requests", "status": 429}, RateLimitError, 429),
        ({"statusCode": 401, "message": "Access denied"}, ProviderRequestError, 401),
        ({"error_code": 336501, "error_msg": "rate limit"}, ServerError, 200),
        ({"success": False, "message": "?"}, ServerError, 200),
        ({"status": "failed", "message": "?"}, ServerError, 200),
        ({"error": {"type": "RateLimitError", "message": "?"}}, RateLimitError, 429),
        ({"error": {"type": "too_many_requests"}}, RateLimitError, 429),
        ({"error": {"code": "Throttling.RateLimited"}}, ServerError, 200),
        ({"error": {"code": "ThrottlingException"}}, RateLimitError, 429),
        ({"error": {"code": 502.0}}, ServerError, 502),
        ({"error": {"code": "content_policy_violation"}}, ProviderRequestError, 400),
        ({"error": {"code": "invalid_request", "message": "?"}}, ProviderRequestError, 400),
        ({"error": {"code": 429, "type": "billing_not_active"}}, ProviderRequestError, 429),
    ],
)
async def test_an_error_inside_a_200_counts_as_its_code_says(wire: Wire, body: Any, expected: type, status: int):
    error, seen = await failure(wire, answer(body))
    assert type(error) is expected
    assert error.status == status
    assert seen == 1


@pytest.mark.parametrize(
    "body", [b"<!doctype html><p>hi", b"", b'{"choices": [{"mess', b"data: {}\n\n", b"\xff\xfe\x00"]
)
async def test_a_200_that_is_not_json_is_retryable_and_in_doubt(wire: Wire, body: bytes):
    error, seen = await failure(wire, answer(body))
    assert type(error) is UnreadableAnswer
    assert error.in_doubt
    assert seen == 1


@pytest.mark.parametrize(
    "body",
    [{}, [], "text", None, 7, {"choices": None}, {"choices": []}, {"data": {"choices": [{}]}}, {"candidates": []}],
)
async def test_json_without_the_promised_shape_is_a_decode_error(wire: Wire, body: Any):
    payload = json.dumps(body).encode()
    with RawServer(lambda request: answer(payload)) as server:
        client = wire.client(server.url)
        response = await client.complete(REQUEST)
        await client.aclose()
    with pytest.raises(ResponseDecodeError):
        client.decode(response.response)


@pytest.mark.parametrize(
    "name",
    [
        *("RESET_BEFORE", "CLOSE_BEFORE", "RESET_INSIDE", "SHORT_BODY", "BAD_CHUNKS", "CUT_CHUNKS", "BAD_GZIP"),
        "NOT_HTTP",
    ],
)
async def test_a_damaged_answer_breaks_the_connection_and_is_in_doubt(wire: Wire, name: str):
    error, seen = await failure(wire, getattr(raw_tcp, name))
    assert type(error) is ConnectionBroken
    assert error.in_doubt
    assert error.status is None
    assert seen == 1


@pytest.mark.parametrize("name", ["STALL_BEFORE", "DRIP"])
async def test_the_total_deadline_ends_a_stall_and_a_drip(wire: Wire, name: str):
    error, seen = await failure(wire, getattr(raw_tcp, name), timeout_s=0.4)
    assert type(error) is ProviderTimeout
    assert error.in_doubt
    assert seen == 1


async def test_a_closed_port_was_never_sent(wire: Wire):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = wire.client(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(EndpointUnreachable) as caught:
            await client.complete(REQUEST)
        await client.aclose()
    assert not caught.value.in_doubt


async def test_an_unknown_host_was_never_sent(wire: Wire):
    client = wire.client("http://no-such-host.invalid")
    with pytest.raises(EndpointUnreachable) as caught:
        await client.complete(REQUEST)
    await client.aclose()
    assert not caught.value.in_doubt


async def test_waiting_for_a_free_connection_ends_at_the_deadline_and_was_never_sent(wire: Wire):
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(server.url, timeout_s=1, max_connections=1)
        await client.complete(REQUEST)
        # Every other holder of the only slot would reach its own deadline first.
        async with client._transport._sessions[asyncio.get_running_loop()].slots:
            with pytest.raises(ProviderTimeout, match="no free connection") as caught:
                await client.complete(REQUEST)
        await client.complete(REQUEST)
        await client.aclose()
    assert not caught.value.in_doubt
    assert len(server.received) == 2


async def test_a_redirect_is_not_followed(wire: Wire):
    error, seen = await failure(wire, answer(b"", 308, {"Location": "/elsewhere"}))
    assert type(error) is ProviderRequestError
    assert "base_url" in str(error)
    assert seen == 1


async def test_a_kept_connection_that_breaks_never_sends_twice(wire: Wire):
    replies = [answer(wire.answer("one")), raw_tcp.CLOSE_BEFORE, answer(wire.answer("three"))]
    with RawServer(lambda request: replies[len(server.received) - 1]) as server:
        client = wire.client(server.url)
        await client.complete(REQUEST)
        with pytest.raises(ConnectionBroken):
            await client.complete(REQUEST)
        await client.complete(REQUEST)
        await client.aclose()
    assert len(server.received) == 3
    assert server.connections == 2


async def test_cancelling_a_call_frees_its_connection(wire: Wire):
    replies = [raw_tcp.STALL_BEFORE, answer(wire.answer("after"))]
    with RawServer(lambda request: replies[len(server.received) - 1]) as server:
        client = wire.client(server.url, max_connections=1)
        task = asyncio.create_task(client.complete(REQUEST))
        await server.arrived(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        response = await client.complete(REQUEST)
        await client.aclose()
    assert client.decode(response.response).text == "after"


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
async def test_an_error_shows_neither_the_prompt_nor_the_key(wire: Wire, status: int):
    said = f"Incorrect API key provided: {KEY}. Your message {PROMPT!r} (ludmilla, QUISTGAARD) is too long"
    error, _ = await failure(wire, answer(wire.error(status, "invalid_thing", said), status))
    shown = f"{error!r} {error} {error.__dict__} {pickle.dumps(error)!r}".casefold()
    assert not [word for word in ("ludmilla", "quistgaard", "48213", "patient", KEY) if word.casefold() in shown]
    assert "too long" in str(error)


async def test_an_error_carries_code_request_id_and_wait(wire: Wire):
    reply = answer(wire.error(503, "overloaded_error", "busy"), 503, {"request-id": "req_7", "Retry-After": "1.25"})
    error, _ = await failure(wire, reply)
    assert type(error) is ServerError
    assert (error.request_id, error.retry_after_ms) == ("req_7", 1250)
    assert error.code in ("overloaded_error", "UNAVAILABLE")
    assert "req_7" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert copy.__dict__ == error.__dict__


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
async def test_a_client_pickles_without_its_key_and_reads_the_environment_on_the_worker(
    wire: Wire, dumps: Any, monkeypatch: pytest.MonkeyPatch
):
    with RawServer(lambda request: answer(wire.answer("there"))) as server:
        client = wire.client(server.url, api_key_env="WORKER_KEY", now_ms=lambda: 0)
        await client.complete(REQUEST)
        blob = dumps(client)
        await client.aclose()
        assert KEY.encode() not in blob
        assert KEY not in repr(client)
        copy = pickle.loads(blob)
        with pytest.raises(ProviderRequestError, match="WORKER_KEY") as caught:
            await copy.complete(REQUEST)
        assert caught.value.code == "missing_credential"
        monkeypatch.setenv("WORKER_KEY", "sk-of-the-worker")
        await copy.complete(REQUEST)
        await copy.aclose()
    assert len(server.received) == 2
    assert "sk-of-the-worker" in server.received[1].headers[wire.key_header]


async def test_a_key_may_be_an_async_callable(wire: Wire):
    given = iter(["token-1", "token-2"])

    async def token() -> str:
        return next(given)

    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(server.url, api_key=token)
        await client.complete(REQUEST)
        await client.complete(REQUEST)
        await client.aclose()
    sent = [seen.headers[wire.key_header].removeprefix("Bearer ") for seen in server.received]
    assert sent == ["token-1", "token-2"]


async def test_space_around_a_key_is_left_out(wire: Wire):
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(server.url, api_key=f" {KEY}\n")
        await client.complete(REQUEST)
        await client.aclose()
    assert server.received[0].headers[wire.key_header].removeprefix("Bearer ") == KEY


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel", b"bytes"])
async def test_a_key_that_cannot_stand_in_a_header_is_refused_and_not_shown(wire: Wire, key: Any):
    async def fetched() -> Any:
        return key

    client = wire.client("http://127.0.0.1:1", api_key=fetched)
    with pytest.raises(ProviderRequestError, match="nothing was sent") as caught:
        await client.complete(REQUEST)
    assert caught.value.code == "malformed_credential"
    assert str(key)[:6] not in str(caught.value)


async def test_an_async_callable_that_returns_no_key_is_a_missing_one(wire: Wire):
    async def nothing() -> str:
        return ""

    client = wire.client(None, api_key=nothing)
    with pytest.raises(ProviderRequestError, match="returned none") as caught:
        await client.complete(REQUEST)
    assert caught.value.code == "missing_credential"


async def test_the_query_of_a_base_url_stays_at_the_end(wire: Wire):
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(f"{server.url}/gateway/?team=data")
        await client.complete(REQUEST)
        await client.aclose()
    assert server.received[0].path == f"/gateway{wire.path}?team=data"


async def test_a_header_of_ones_own_takes_the_place_of_ours_whatever_its_case(wire: Wire):
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(server.url, headers={"accept-ENCODING": "identity", "X-Team": "data"})
        await client.complete(REQUEST)
        await client.aclose()
    (seen,) = server.received
    assert (seen.headers["accept-encoding"], seen.headers["x-team"]) == ("identity", "data")


async def test_the_vendors_own_endpoint_needs_a_key(wire: Wire):
    client = wire.client(None, api_key=None)
    with pytest.raises(ProviderRequestError, match="nothing was sent") as caught:
        await client.complete(REQUEST)
    assert caught.value.code == "missing_credential"


def test_a_missing_key_can_be_seen_before_any_call(wire: Wire):
    assert "API key" in wire.client(None, api_key=None).missing_key
    assert wire.client(None).missing_key is None
    assert wire.client("http://127.0.0.1:1", api_key=None).missing_key is None


async def test_another_endpoint_needs_none(wire: Wire):
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(server.url, api_key=None)
        await client.complete(REQUEST)
        await client.aclose()
    assert wire.key_header not in server.received[0].headers


@pytest.mark.parametrize("name", ["model", "messages", "stream"])
async def test_what_the_request_itself_sets_cannot_be_overridden(wire: Wire, name: str):
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(server.url)
        with pytest.raises(ValueError, match=name):
            await client.complete(LlmRequest("test-model", REQUEST.messages, None, {name: True}))
    assert server.received == []


async def test_our_own_parameters_stay_off_the_wire_and_unknown_ones_pass(wire: Wire):
    params = {"beam_agents.sample": 3, "some_new_option": {"deep": [1, None]}}
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        client = wire.client(server.url)
        await client.complete(LlmRequest("test-model", REQUEST.messages, None, params))
        await client.aclose()
    body = server.received[0].json
    assert "beam_agents" not in json.dumps(body)
    assert body["some_new_option"] == {"deep": [1, None]}


async def test_the_idempotency_key_is_the_call_id_where_asked_for(wire: Wire):
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        plain, keyed = wire.client(server.url), wire.client(server.url, idempotency_key=True)
        token = current_call.set(CallIdentity("c" * 64))
        await plain.complete(REQUEST)
        await keyed.complete(REQUEST)
        current_call.reset(token)
        await keyed.complete(REQUEST)
        await plain.aclose()
        await keyed.aclose()
    sent = [seen.headers.get("idempotency-key") for seen in server.received]
    assert sent == [None, "c" * 64, None]


def test_the_endpoint_names_host_and_port_and_its_id_tells_credentials_apart(wire: Wire):
    one = wire.client("https://models.example/base", api_key="first-key")
    other = wire.client("https://models.example/base", api_key="second-key")
    assert one.endpoint == other.endpoint == "https://models.example:443"
    assert one.endpoint_id != other.endpoint_id
    assert "first-key" not in one.endpoint_id
    assert one.model_id == "test-model"
    assert one.provider_name == wire.vendor


@pytest.mark.parametrize("url", ["ftp://x", "not a url", "https://user:pass@host/"])
def test_a_base_url_that_cannot_work_is_refused_at_once(wire: Wire, url: str):
    with pytest.raises(ValueError, match="base_url"):
        wire.client(url)


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"timeout_s": float("inf")}, {"max_connections": -1}])
def test_settings_without_a_sensible_value_are_refused_at_once(wire: Wire, options: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(options))):
        wire.client("http://127.0.0.1:1", **options)
