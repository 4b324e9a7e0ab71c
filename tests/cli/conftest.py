"""Fixtures of the command line's tests."""

from tests.cli.running import AGENTS, Command, tickets

__all__ = ["AGENTS", "Command", "tickets"]
