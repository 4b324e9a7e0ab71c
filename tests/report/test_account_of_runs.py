"""The account of real runs against what the model's side counted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import apache_beam as beam
import pytest

from beam_agents.activation import close_activation_loop
from beam_agents.beam import RunAgent, disable_state_cache
from beam_agents.errors import ServerError
from beam_agents.journals.memory import reset_memory_journals
from beam_agents.model import RetryPolicy, reset_circuit_breakers
from beam_agents.report.build import report_of
from beam_agents.report.contents import Report
from beam_agents.report.dead_letters import Letter
from beam_agents.report.gather import Gathering
from beam_agents.testing import fail_then_succeed, match_any, match_contains, raise_error, respond_with
from tests.beam import scripted
from tests.beam.conftest import config, options

PAIRS = [(f"k{number}", number) for number in range(20)]
TOKENS_EACH = 5


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    scripted.reset()
    reset_circuit_breakers()
    reset_memory_journals()
    disable_state_cache()
    yield
    close_activation_loop()


def report() -> Report:
    gathering = Gathering()
    for event in scripted.kept["traces"]:
        gathering.add_event(event)
    for letter in scripted.kept["errors"]:
        gathering.add_dead_letter(Letter.from_json(letter.to_json()))
    return report_of(gathering)


def counts(report: Report) -> dict[str, int]:
    return {row.spend: row.tally.requests for row in report.spend if row.tally.requests}


def test_a_failed_bundle_and_its_resumption_are_paid_once_and_told_as_recovered() -> None:
    scripted.answer_all()
    for fails in (True, False):
        pipeline = beam.Pipeline(options=options("FnApiRunner"))
        outputs = pipeline | beam.Create(PAIRS) | RunAgent(scripted.greeter, config(journal="memory://account"))
        outputs.traces | beam.Map(partial(scripted.keep, "traces"))
        outputs.main | beam.ParDo(scripted.FailOnceAtEnd())
        if fails:
            with pytest.raises(RuntimeError, match="last step"):
                pipeline.run()
            scripted.kept.clear()
        else:
            pipeline.run()
    told = report()
    assert counts(told) == {"recovered": scripted.llm.call_count} == {"recovered": 20}
    assert told.spent.tokens == told.saved.tokens == 20 * TOKENS_EACH


def test_every_request_that_the_model_served_is_in_one_class() -> None:
    scripted.llm.add_rule(match_contains(" 3"), raise_error(ServerError(500)))
    scripted.llm.add_rule(
        match_contains(" 7"), fail_then_succeed(error=ServerError(503), times=1, payload=scripted.ANSWER)
    )
    scripted.llm.add_rule(match_any(), respond_with(scripted.ANSWER))
    pipeline = beam.Pipeline(options=options("FnApiRunner"))
    settings = config(retry_policy=RetryPolicy(max_attempts=2, base_ms=1, max_ms=2), journal="memory://classes")
    scripted.keep_all(pipeline | beam.Create(PAIRS) | RunAgent(scripted.greeter, settings))
    pipeline.run()
    told = report()
    assert counts(told) == {"billed": 19, "failed": 3}
    assert sum(counts(told).values()) == scripted.llm.call_count
    assert (told.spent.tokens, told.dead_letters, told.committed) == (19 * TOKENS_EACH, 1, 19)
    assert [(one.kind, one.count) for one in told.failed_requests] == [("ServerError 500", 2), ("ServerError 503", 1)]
