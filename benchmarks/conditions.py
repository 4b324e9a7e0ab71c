"""What a run was made on: figures without it say nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

__all__ = ["conditions"]

_PACKAGES = ("apache-beam", "aiohttp", "openai", "orjson", "pydantic", "protobuf", "tenacity", "purgatory")


def conditions() -> dict[str, str]:
    """Machine, interpreter, packages, and how busy the machine was when this was asked."""
    found = {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "loop": "uvloop" if importlib.util.find_spec("uvloop") else "asyncio",
        "load": " ".join(f"{one:.2f}" for one in os.getloadavg()),
    }
    return found | {name: importlib.metadata.version(name) for name in _PACKAGES}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
