"""Fresh interpreters that find this repository's code, installed or not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["environment", "python"]

_ROOT = Path(__file__).parents[1]


def python(*arguments: str) -> tuple[str, ...]:
    """The command of a fresh interpreter."""
    return (sys.executable, *arguments)


def environment() -> dict[str, str]:
    """This process's environment, and where `beam_agents` and `benchmarks` are; bytecode is kept."""
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))}
