"""How long it takes to start, beside starting an interpreter that imports pydantic."""

from __future__ import annotations

import subprocess

from benchmarks.processes import environment, python
from benchmarks.rows import Found, in_turn, ratio
from benchmarks.timing import seconds

__all__ = ["measured"]

_PEER = "python -c 'import pydantic'"


def measured(quick: bool) -> Found:
    """Fresh processes, in turn; the first round only warms the file cache."""
    found = in_turn(
        2 if quick else 16,
        {
            "help": lambda: _run("-m", "beam_agents.cli", "--help"),
            "import": lambda: _run("-c", "import beam_agents"),
            "facade": lambda: _run("-c", "import beam_agents.model"),
            "pydantic": lambda: _run("-c", "import pydantic"),
        },
    )
    times = {name: measured[1:] for name, measured in found.items()}
    peer = times["pydantic"]
    return Found(
        (
            ratio("beam-agents --help", "s", times["help"], peer, _PEER, 3.0),
            ratio("python -c 'import beam_agents'", "s", times["import"], peer, _PEER, 2.0),
            ratio("python -c 'import beam_agents.model'", "s", times["facade"], peer, _PEER),
        )
    )


def _run(*arguments: str) -> float:
    return seconds(lambda: subprocess.run(python(*arguments), check=True, capture_output=True, env=environment()))
