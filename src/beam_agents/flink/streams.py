"""`run_agent`: an agent over the events of each key of a stream."""

from __future__ import annotations

from pyflink.common import Configuration, Duration, Row, Time, TypeInformation, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, KeyedStream
from pyflink.datastream.state import StateTtlConfig

from beam_agents.activation import Agent, AgentConfig, require_agent
from beam_agents.activation.agent import agent_name
from beam_agents.activation.preflight import warn_of_schemas
from beam_agents.flink.buckets import KeyOf, in_buckets
from beam_agents.flink.function import AgentFunction, Step
from beam_agents.flink.outputs import to_text, unchanged
from beam_agents.flink.side_outputs import AgentStreams, Parting, Tags, row_type

__all__ = ["run_agent", "time_to_live"]

_IDLE_MARGIN_S = 10.0


def run_agent(
    keyed_stream: DataStream,
    agent: Agent,
    config: AgentConfig,
    *,
    key_by: KeyOf | None = None,
    output_type: TypeInformation | None = None,
    watermarks: WatermarkStrategy | None = None,
    state_ttl: StateTtlConfig | None = None,
    uid: str | None = None,
) -> AgentStreams:
    """Run `agent` for every event of a stream keyed by text or bytes, in order for each key.

    Checkpoints never wait for a call: events wait in keyed state and are committed by timers. `config.commit`
    does not apply.

    Args:
        keyed_stream: the events, keyed by text or bytes unless there is `key_by`; their types are the stream's own.
        agent: `async def agent(ctx, event)`.
        config: as under Beam; without a `namespace`, the agent's name is one.
        key_by: the key of an event, for a stream without keys. Faster than a keyed stream, whose events travel
            twice, to their key and from there to its bucket; but all events pass one subtask, which keeps their order.
        output_type: type of `.main`. By default text: a `str` as it is, any other JSON value as its JSON.
        watermarks: watermarks of what comes out; the timestamps are the events' own. By default they trail
            the latest output by the activation's deadline, so that an event that was taken in on time is
            not late when its activation ends.
        state_ttl: when the state of an idle key is dropped, in Flink's words; by default `config.state_ttl_s`
            after the key's last event, in processing time.
        uid: names the step in savepoints; by default the namespace.

    Raises:
        TypeError: when `agent` is no agent, or the stream has no keys or has them twice.
    """
    require_agent(agent)
    _require_keys(keyed_stream, key_by)
    warn_of_schemas(agent, config)
    name = agent_name(agent)
    namespace = config.namespace or name
    to_output, kept_type = (to_text, Types.STRING()) if output_type is None else (unchanged, output_type)
    step = Step(uid or namespace, namespace, to_output, time_to_live(config, state_ttl))
    if step.ttl is not None:
        _keep_no_read_state(keyed_stream)
    committed = (
        in_buckets(keyed_stream, key_by, f"agent {name}", step.uid)
        .process(AgentFunction(agent, config, step), output_type=row_type(kept_type, Types.LONG()))
        .name(f"agent {name}")
        .uid(step.uid)
    )
    strategy = watermarks or _trailing(config.activation_timeout_s)
    timed = committed.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(_EventTime()))
    tags = Tags.of_agents()
    return AgentStreams(timed.process(Parting(tags), output_type=kept_type), tags)


def time_to_live(config: AgentConfig, given: StateTtlConfig | None) -> StateTtlConfig | None:
    """When idle keys are dropped, if at all."""
    if given is not None or config.state_ttl_s is None:
        return given
    return StateTtlConfig.new_builder(Time.milliseconds(int(config.state_ttl_s * 1000))).build()


def _keep_no_read_state(stream: DataStream) -> None:
    """Or workers would read cells from their own memory whose time to live is over."""
    cache = Configuration()
    cache.set_string("python.map-state.read-cache-size", "0")
    stream.get_execution_environment().configure(cache)


def _require_keys(stream: DataStream, key_by: KeyOf | None) -> None:
    if not isinstance(stream, DataStream):
        raise TypeError(f"run_agent needs a stream, not a {type(stream).__name__}")
    if key_by is None and not isinstance(stream, KeyedStream):
        raise TypeError("run_agent needs the keys of a stream: pass key_by=, or call key_by on the stream first")
    if key_by is not None and isinstance(stream, KeyedStream):
        raise TypeError("run_agent got a keyed stream and key_by=: leave one of them out")
    if key_by is not None and not callable(key_by):
        raise TypeError(f"key_by must be a function of an event, not a {type(key_by).__name__}")


def _trailing(seconds: float) -> WatermarkStrategy:
    """A subtask that puts nothing out for longer holds nobody back: whatever it has under way is not late then."""
    trailing = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(int(seconds * 1000)))
    return trailing.with_idleness(Duration.of_millis(int((seconds + _IDLE_MARGIN_S) * 1000)))


class _EventTime(TimestampAssigner):  # type: ignore[misc]
    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        del record_timestamp
        event_time_ms: int = value[4]
        return event_time_ms
