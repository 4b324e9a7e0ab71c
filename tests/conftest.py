"""Fixtures of several packages of tests."""

from tests.cli.running import beam_agents, beam_agents_process, proxy, stand_in

__all__ = ["beam_agents", "beam_agents_process", "proxy", "stand_in"]
