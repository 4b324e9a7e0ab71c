"""The same agents on Apache Flink, through PyFlink's public API. Needs the extra `pyflink`."""

from beam_agents.flink.streams import AgentStreams, run_agent

__all__ = ["AgentStreams", "run_agent"]
