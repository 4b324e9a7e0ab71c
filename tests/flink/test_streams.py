"""What `run_agent` and `complete` build. Runs where PyFlink and Java are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyflink.common import Time
from pyflink.datastream import DataStream, KeyedStream
from pyflink.datastream.state import StateTtlConfig

from beam_agents.activation import AgentConfig
from beam_agents.flink.streams import run_agent, time_to_live
from beam_agents.testing import FakeLLM
from beam_agents.values import DecodedResponse

HERE = Path(__file__).parent
TEXT, RAW = "String", "PrimitiveArrayTypeInfo"


def config(**given):
    return AgentConfig(provider=FakeLLM, decode=DecodedResponse, **given)


async def agent(ctx, event):
    return event


def stream_of(kind):
    """Nothing of it is looked at but its type."""
    return kind.__new__(kind)


@pytest.fixture(scope="module")
def graphs():
    ran = subprocess.run(
        [sys.executable, str(HERE / "jobs" / "graphs.py")],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", ["run_agent", "key_by", "complete"])
def test_no_output_is_pickled_by_accident(graphs, way):
    main, traces, errors = graphs[way]["streams"]
    assert (main, errors) == (TEXT, TEXT)
    assert traces.startswith(RAW)
    assert len(graphs[way]["between"]) >= 6
    assert not [one for one in graphs[way]["between"] if graphs["pickled"] in one]


def test_a_declared_type_is_that_of_main(graphs):
    assert graphs["declared"]["streams"][0] == "Long"


def test_traces_are_a_stage_of_the_job_only_where_they_are_asked_for(graphs):
    without, asked = graphs["stages"]
    assert asked == without + 2  # the stage and its sink


def test_the_configured_time_to_live_is_flinks():
    assert time_to_live(config(state_ttl_s=5_000), None).get_ttl().to_milliseconds() == 5_000_000
    given = StateTtlConfig.new_builder(Time.seconds(119)).build()
    assert time_to_live(config(state_ttl_s=5_000), given) is given
    assert time_to_live(config(), None) is None


def test_what_is_no_stream_is_refused():
    with pytest.raises(TypeError, match="needs a stream, not a list"):
        run_agent([], agent, config(), key_by=str)


def test_a_stream_without_keys_is_refused_with_advice():
    with pytest.raises(TypeError, match="pass key_by=, or call key_by on the stream first"):
        run_agent(stream_of(DataStream), agent, config())


def test_a_stream_with_keys_twice_is_refused():
    with pytest.raises(TypeError, match="a keyed stream and key_by=: leave one of them out"):
        run_agent(stream_of(KeyedStream), agent, config(), key_by=str)


def test_keys_that_are_no_function_are_refused():
    with pytest.raises(TypeError, match="key_by must be a function of an event, not a str"):
        run_agent(stream_of(DataStream), agent, config(), key_by="customer")


def test_events_of_a_source_of_one_subtask_are_not_spread_before_they_have_keys(graphs):
    assert graphs["keying"] == [1, 1]


def test_flinks_hash_gives_every_second_group_of_keys_one_bucket(graphs):
    assert sorted(graphs["groups"]) == list(range(0, 128, 2))
