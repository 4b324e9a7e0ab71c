"""The public test doubles do what their docstrings say."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest

from beam_agents import testing
from beam_agents.errors import ProviderError, ServerError
from beam_agents.model import LLMClient, StagingSink
from beam_agents.proto import TraceEvent
from beam_agents.testing import (
    FakeLLM,
    ManualClock,
    RecordingSink,
    RecordingSleep,
    UnmatchedRequestError,
    fail_then_succeed,
    match_any,
    match_contains,
    match_model_id,
    raise_error,
    respond_with,
)
from beam_agents.values import LlmRequest, LlmResponse, TokenUsage


def ask(text="hi", model="m-1") -> LlmRequest:
    return LlmRequest(model, [{"role": "user", "content": text}])


def test_every_double_is_exported_in_order_and_documented():
    assert testing.__all__ == sorted(testing.__all__)
    assert all(getattr(testing, name).__doc__ for name in testing.__all__)


# FakeLLM


def test_the_fake_is_a_client():
    assert isinstance(FakeLLM(), LLMClient)


async def test_the_first_rule_that_matches_decides():
    llm = FakeLLM([(match_contains("weather"), respond_with(b"sunny")), (match_any(), respond_with(b"else"))])
    llm.add_rule(match_any(), respond_with(b"never"))
    assert await llm.complete(ask("the weather?")) == LlmResponse(b"sunny")
    assert await llm.complete(ask("other")) == LlmResponse(b"else")


async def test_rules_can_be_chained_on():
    llm = FakeLLM().add_rule(match_model_id("a"), respond_with(b"A")).add_rule(match_model_id("b"), respond_with(b"B"))
    assert [(await llm.complete(ask(model=name))).response for name in "ab"] == [b"A", b"B"]


async def test_a_request_without_a_rule_says_so_and_is_no_provider_error():
    llm = FakeLLM([(match_model_id("other"), respond_with(b""))])
    with pytest.raises(UnmatchedRequestError, match=r"no rule matches a request for model 'm-1'; add one") as caught:
        await llm.complete(ask())
    assert caught.value.request == ask()
    assert not isinstance(caught.value, ProviderError)
    assert llm.call_count == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.request, str(again)) == (ask(), str(caught.value))


@pytest.mark.parametrize(
    ("content", "matches"),
    [
        ("say needle please", True),
        ("say nothing", False),
        ([{"type": "text", "text": "a needle"}, {"type": "image_url", "image_url": {}}], True),
        ([{"type": "text", "text": 5}, "needle"], False),
        (({"type": "text", "text": "needle"},), True),
        (None, False),
    ],
)
def test_text_is_looked_for_in_contents_and_their_text_parts(content, matches):
    assert match_contains("needle")(LlmRequest("m", [{"role": "user", "content": content}])) is matches
    assert not match_contains("needle")(LlmRequest("needle", [{"role": "needle"}]))


async def test_an_error_is_raised_itself_each_time():
    error = ServerError(500)
    llm = FakeLLM([(match_any(), raise_error(error))])
    for _ in range(2):
        with pytest.raises(ServerError) as caught:
            await llm.complete(ask())
        assert caught.value is error


async def test_failures_before_success_are_counted_for_each_equal_request():
    llm = FakeLLM([(match_any(), fail_then_succeed(error=ServerError(500), times=2, payload=b"ok"))])
    outcomes = []
    for text in ("a", "b", "a", "b", "a", "b"):
        try:
            outcomes.append((await llm.complete(ask(text))).response)
        except ServerError:
            outcomes.append("failed")
    assert outcomes == ["failed"] * 4 + [b"ok"] * 2
    assert (llm.call_count, llm.calls_for(ask("a")), llm.calls_for(ask("never"))) == (6, 3, 0)
    assert llm.requests[1] == ask("b")


async def test_latency_is_waited_before_answer_and_error_alike():
    sleep = RecordingSleep()
    llm = FakeLLM(
        [
            (match_contains("ok"), respond_with(b"", latency_ms=250)),
            (match_contains("bad"), raise_error(KeyError(), latency_ms=70)),
            (match_any(), fail_then_succeed(error=KeyError(), times=0, payload=b"", latency_ms=5)),
        ],
        delay=sleep,
    )
    await llm.complete(ask("ok"))
    with pytest.raises(KeyError):
        await llm.complete(ask("bad"))
    await llm.complete(ask("x"))
    assert sleep.delays == [250, 70, 5]


async def test_latency_is_real_unless_a_delay_is_injected():
    llm = FakeLLM([(match_any(), respond_with(b"late", latency_ms=60_000))])
    task = asyncio.create_task(llm.complete(ask()))
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_one_fake_serves_many_threads_and_loops():
    llm = FakeLLM([(match_any(), fail_then_succeed(error=ServerError(500), times=40, payload=b"ok"))])
    failures: list[int] = []

    async def ask_often():
        for _ in range(20):
            try:
                await llm.complete(ask())
            except ServerError:
                failures.append(1)

    threads = [threading.Thread(target=lambda: asyncio.run(ask_often())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (llm.call_count, len(failures)) == (80, 40)


# Clock, sleep, sink


def test_a_manual_clock_moves_only_when_told():
    clock = ManualClock(1_000)
    assert (clock(), clock()) == (1_000, 1_000)
    clock.advance(250)
    clock.advance(-50)
    assert clock() == clock.now_ms == 1_200
    assert ManualClock()() == 0


async def test_a_recording_sleep_returns_at_once_and_moves_its_clock_at_least_as_far():
    clock = ManualClock()
    sleep = RecordingSleep(clock)
    await sleep(0.2)
    await sleep(1_500)
    assert (sleep.delays, clock()) == ([0.2, 1_500], 1_501)


async def test_a_recording_sleep_lets_other_tasks_run():
    ran = []

    async def other():
        ran.append(True)

    task = asyncio.create_task(other())
    await RecordingSleep()(10_000)
    assert ran == [True]
    await task


def test_a_recording_sink_keeps_what_was_staged_and_adds_it_up():
    sink = RecordingSink()
    staging: StagingSink = sink
    assert sink.billed == TokenUsage(0, 0, 0)
    staging.stage_trace_event(TraceEvent(seq=1))
    staging.stage_trace_event(TraceEvent(seq=2))
    staging.accumulate_usage(TokenUsage(1, 2, 3))
    staging.accumulate_usage(TokenUsage(10, 20, 30, 4))
    assert [event.seq for event in sink.trace_events] == [1, 2]
    assert sink.billed == TokenUsage(11, 22, 33, 4)
