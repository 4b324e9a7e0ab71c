"""The committed message code loads without a warning on the oldest and on the newest protobuf that is allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
CODE = """
from google.protobuf import __version__
from beam_agents.proto import AgentCell, LlmCacheBlob, TraceEvent
event = TraceEvent(entity_key=b"k", seq=3, event_type=TraceEvent.LLM_CALL, attributes={"a": "b"})
assert TraceEvent.FromString(event.SerializeToString()) == event
cell = AgentCell(next_seq=2, cache=LlmCacheBlob(total_response_bytes=5))
assert AgentCell.FromString(cell.SerializeToString()) == cell
print(__version__)
"""

pytestmark = pytest.mark.services


@pytest.mark.parametrize("version", ["5.26.1", "5.29.5", "6.33.6"])
def test_messages_load_on_protobuf(version: str) -> None:
    python = python_with(version)
    ran = subprocess.run(
        [python, "-W", "error", "-c", CODE],
        env={"PYTHONPATH": str(REPO / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stderr == ""
    assert ran.stdout.strip() == version


def python_with(version: str) -> Path:
    """The interpreter of a venv that holds this protobuf and nothing else; kept in `.cache`."""
    venv = REPO / ".cache" / f"protobuf-{version}-{sys.version_info.major}.{sys.version_info.minor}"
    python = venv / "bin" / "python"
    installed = venv / "installed"
    if not installed.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=120)
        install = [str(python), "-m", "pip", "install", "--quiet", f"protobuf=={version}"]
        subprocess.run(install, check=True, timeout=300)
        installed.touch()
    return python
