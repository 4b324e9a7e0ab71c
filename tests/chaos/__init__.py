"""Proof of the promise: never pay twice, never lose count. `python -m tests.chaos --help`."""
