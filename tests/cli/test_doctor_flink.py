"""What the doctor says about Flink; stand-ins of `python`, `java` and `flink` are scripts."""

from __future__ import annotations

import sys
from pathlib import Path

from beam_agents.cli.doctor.findings import Finding, Health
from beam_agents.cli.doctor.flink import look_at_flink

JAVA_17 = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
FLINK_2 = "echo 'Version: 2.2.1, Commit ID: 450c63e'"


def _script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def _found(
    root: Path, *, java: str = JAVA_17, flink: str = "echo 'Version: 2.2.1, Commit ID: 450c63e'"
) -> list[Finding]:
    home = root / "pyflink"
    python = _script(root / "python", f"echo '2.2.1 {home}'")
    _script(root / "jdk" / "bin" / "java", java)
    _script(home / "bin" / "flink", flink)
    return look_at_flink(str(python), {"JAVA_HOME": str(root / "jdk"), "PATH": "/usr/bin:/bin"})


def test_pyflink_java_and_the_command_are_named_with_their_versions(tmp_path: Path) -> None:
    found = _found(tmp_path)
    assert [one.part for one in found] == ["extra pyflink", "Java", "flink command"]
    assert {one.health for one in found} == {Health.GOOD}
    assert [one.said.split(",")[0] for one in found] == ["agents on Flink: PyFlink 2.2.1", "17.0.15", "2.2.1"]


def test_another_java_is_not_tested(tmp_path: Path) -> None:
    java = _found(tmp_path, java="""echo 'openjdk version "11.0.2"' >&2""")[1]
    assert (java.health, java.said) == (Health.OPTIONAL, "11.0.2, not tested")
    assert "Java 17" in java.remedy


def test_what_does_not_run_says_why_and_what_to_do(tmp_path: Path) -> None:
    _, java, flink = _found(tmp_path, java="echo 'no JVM here'; exit 1", flink="exit 3")
    assert "does not run: no JVM here" in java.said
    assert "it says nothing" in flink.said
    assert "FLINK_HOME" in flink.remedy


def test_a_java_that_is_not_there_is_no_crash(tmp_path: Path) -> None:
    python = _script(tmp_path / "python", f"echo '2.2.1 {tmp_path}'")
    java = look_at_flink(str(python), {"PATH": str(tmp_path)})[1]
    assert java.health is Health.OPTIONAL
    assert "No such file" in java.said


def test_without_pyflink_there_is_the_reason_and_nothing_more(tmp_path: Path) -> None:
    (found,) = look_at_flink(str(_script(tmp_path / "python", "echo \"No module named 'pyflink'\" >&2; exit 1")), {})
    assert (found.part, found.health) == ("extra pyflink", Health.OPTIONAL)
    assert "No module named 'pyflink'" in found.said
    assert "docs/flink.md" in found.remedy


def test_pyflink_is_not_imported_here(tmp_path: Path) -> None:
    assert look_at_flink(sys.executable, {"PATH": str(tmp_path)})
    assert not any(name.partition(".")[0] == "pyflink" for name in sys.modules)
