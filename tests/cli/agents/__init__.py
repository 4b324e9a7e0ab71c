"""Agents that the command line's tests run."""
