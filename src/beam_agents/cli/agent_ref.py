"""From `module:function` or `file.py:function` to an agent."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from beam_agents.activation.agent import Agent, require_agent
from beam_agents.cli.complaint import Complaint

__all__ = ["load_agent", "load_object", "modules_from_files"]

_from_files: list[ModuleType] = []


def modules_from_files() -> tuple[ModuleType, ...]:
    """The modules that were loaded from a file by its path: no other process can import them by their names."""
    return tuple(_from_files)


def load_agent(ref: str) -> Agent:
    """The agent that `ref` names.

    Raises:
        Complaint: when there is no such thing, when it is no agent, or when importing it fails.
    """
    agent: Agent = load_object(ref, "an agent")
    try:
        require_agent(agent)
    except TypeError as error:
        raise Complaint(f"{ref}: {error}") from error
    return agent


def load_object(ref: str, wanted: str) -> Any:
    """The attribute that `ref` names. `wanted` says what it should be, for messages.

    Raises:
        Complaint: when there is no such thing, or when importing its module fails.
    """
    where, colon, name = ref.rpartition(":")
    if not colon or not where or not name:
        raise Complaint(f"{ref!r} does not name {wanted}: write module:name or path/to/file.py:name")
    module = _from_file(Path(where)) if where.endswith(".py") else _from_module(where)
    try:
        return getattr(module, name)
    except AttributeError:
        close = difflib.get_close_matches(name, [one for one in vars(module) if not one.startswith("_")], 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise Complaint(f"{where} has no {name}{hint}") from None


def _from_module(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        found = None
    if found is None:
        raise Complaint(f"there is no module {name}; to run a file, write its path: {name.replace('.', '/')}.py:NAME")
    return _imported(name, lambda: importlib.import_module(name))


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Complaint(f"there is no file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"agent_file_{abs(hash(folder))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Complaint(f"{path} cannot be read as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # within this process the agent is pickled by its module's name
    _from_files.append(module)
    loader = spec.loader

    def load() -> ModuleType:
        loader.exec_module(module)
        return module

    return _imported(str(path), load)


def _imported(name: str, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        return load()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        at = (
            f"{error.filename}, line {error.lineno}"
            if isinstance(error, SyntaxError)
            else f"{last.filename}, line {last.lineno}"
        )
        said = error.msg if isinstance(error, SyntaxError) else error
        raise Complaint(f"importing {name} failed with {type(error).__name__}: {said} ({at})") from error
