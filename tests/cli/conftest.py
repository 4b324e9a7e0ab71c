"""Fixtures of the command line's tests."""

from tests.cli.running import tickets

__all__ = ["tickets"]
