"""Imports only go down, engines stay in their packages, and every module exports what it says."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import beam_agents

ROOT = Path(beam_agents.__file__).parent
GROUND = {"errors", "values", "ports", "proto", "attributes", "notices"}
ADAPTERS = {"providers", "journals", "exporters"}
MAY_IMPORT = {
    **dict.fromkeys(GROUND, GROUND),
    "testing": GROUND,
    **dict.fromkeys(ADAPTERS, GROUND),
    "report": GROUND | {"exporters"},
    "model": GROUND,
    "activation": GROUND | ADAPTERS | {"model"},
    "beam": GROUND | ADAPTERS | {"model", "activation"},
    "flink": GROUND | ADAPTERS | {"model", "activation"},
    "cli": GROUND | ADAPTERS | {"model", "activation", "beam", "flink", "report", "testing"},
}
ENGINES = {"apache_beam": "beam", "pyflink": "flink"}
WITHOUT_PARTS = ("beam_agents.cli.local.llama_server",)


def sources() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if not path.name.endswith("_pb2.py"))


def package_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Every module that the file imports, functions and type checking included; strings of lazy tables too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "beam_agents")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.partition(":")[0]
            if text.startswith("beam_agents.") and text.replace(".", "").replace("_", "").isalnum():
                yield text


def ours(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "beam_agents" and len(parts) > 1 else None


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_go_down(path: Path) -> None:
    package = package_of(path)
    if package == "__init__":
        return
    known = MAY_IMPORT.keys()
    wrong = {
        name
        for module in imported(path)
        if (name := ours(module)) in known and name != package and name not in MAY_IMPORT[package]
    }
    assert not wrong, f"{package} must not import {sorted(wrong)}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_engines_are_imported_in_one_package_each(path: Path) -> None:
    engines = {module.split(".")[0] for module in imported(path)} & ENGINES.keys()
    allowed = {engine for engine, package in ENGINES.items() if package == package_of(path)}
    if path == ROOT / "cli" / "doctor" / "checks.py":
        allowed = {"apache_beam"}  # it asks whether Beam can be imported at all
    assert engines <= allowed


def test_every_package_has_its_place_in_the_layers() -> None:
    assert {package_of(path) for path in sources()} - {"__init__"} == MAY_IMPORT.keys()


def test_nobody_imports_relatively() -> None:
    assert [str(path) for path in sources() if any(module.startswith(".") for module in imported(path))] == []


def modules() -> list[str]:
    """Every module that can be imported without PyFlink, which lives in a venv of its own."""
    found = [info.name for info in pkgutil.walk_packages([str(ROOT)], "beam_agents.", onerror=lambda name: None)]
    return [name for name in found if not name.endswith(("_pb2", "__main__")) and ".flink" not in name]


@pytest.mark.parametrize("name", modules())
def test_exports_are_sorted_and_resolvable(name: str) -> None:
    if name in WITHOUT_PARTS:
        return
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", None)
    if exported is None:
        return
    assert exported == sorted(exported, key=lambda one: (not one.isupper(), one[0].islower(), one))
    assert [one for one in exported if not hasattr(module, one)] == []


def test_the_root_imports_no_engine() -> None:
    import subprocess
    import sys

    code = "import sys, beam_agents, beam_agents.model; print({'apache_beam', 'aiohttp'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, timeout=60)
    assert ran.stdout.strip() == "set()"
