"""What agents on Flink need. Everything is asked of other processes: PyFlink is imported by none but its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from beam_agents.cli.doctor.findings import Finding, Health

__all__ = ["look_at_flink"]

_LIMIT_S = 60.0
_TESTED_JAVA = 17
_PROBE = (
    "import importlib.metadata, pathlib, pyflink.datastream;"
    "print(importlib.metadata.version('apache-flink'), pathlib.Path(pyflink.__file__).parent)"
)
_INSTALL = "PyFlink wants a venv of its own, with Python 3.11: docs/flink.md, 'Try it on one machine'"
_JAVA = "install Java 17 (Debian: apt-get install openjdk-17-jre-headless), or let JAVA_HOME point to it"


def look_at_flink(python: str, env: Mapping[str, str]) -> list[Finding]:
    """PyFlink in `python`; where there is one, or a Flink in `env`, also Java and the `flink` command."""
    code, said = _asked([python, "-P", "-c", _PROBE], env)
    version, _, bundled = said.partition(" ")
    if code == 0:
        pyflink = Finding("extra pyflink", Health.GOOD, f"agents on Flink: PyFlink {version}")
    else:
        pyflink = Finding("extra pyflink", Health.OPTIONAL, f"agents on Flink: {_last_line(said)}", _INSTALL)
    home = env.get("FLINK_HOME") or (bundled if code == 0 else "")
    return [pyflink, _java(env), _command(home, env)] if home else [pyflink]


def _java(env: Mapping[str, str]) -> Finding:
    home = env.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    code, said = _asked([java, "-version"], env)
    found = re.search(r'version "(\d+)([^"]*)"', said)
    if code != 0 or found is None:
        return Finding("Java", Health.OPTIONAL, f"{java} does not run: {_last_line(said)}", _JAVA)
    version = found[1] + found[2]
    if int(found[1]) == _TESTED_JAVA:
        return Finding("Java", Health.GOOD, f"{version}, tested")
    return Finding("Java", Health.OPTIONAL, f"{version}, not tested", _JAVA)


def _command(home: str, env: Mapping[str, str]) -> Finding:
    command = str(Path(home, "bin", "flink"))
    code, said = _asked([command, "--version"], env)
    found = re.search(r"Version: (\S+?),", said)
    if code != 0 or found is None:
        remedy = "let FLINK_HOME be the folder of a Flink distribution; unset, it is PyFlink's own"
        return Finding("flink command", Health.OPTIONAL, f"{command} does not run: {_last_line(said)}", remedy)
    return Finding("flink command", Health.GOOD, f"{found[1]}, {command}")


def _asked(command: list[str], env: Mapping[str, str]) -> tuple[int, str]:
    """Exit code, and all that was said; a command that cannot be run has said why."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_LIMIT_S, env=env, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, f"{done.stdout}\n{done.stderr}".strip()


def _last_line(said: str) -> str:
    return said.rpartition("\n")[2] or "it says nothing"
