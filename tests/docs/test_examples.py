"""Every Python example of the README and the docs runs, page by page, as it stands.

An example that needs what a unit test has not (a cluster, a vendor's key) stands below a comment
`<!-- not run here: why -->`; it is compiled only, and its imports are resolved. `await` may stand outside functions,
an empty `journal.db` lies in the folder, and a scripted stand-in takes the place of OpenAI's models.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from beam_agents.activation import close_activation_loop
from beam_agents.journals import open_journal

REPO = Path(__file__).parents[2]
PAGES = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]
_BLOCK = re.compile(r"(?P<apart><!-- not run here: [^>]+-->\s*\n)?^```python\n(?P<code>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Example:
    """One block of code; `line` is its place on the page."""

    code: str
    line: int
    apart: bool


def examples(page: Path) -> list[Example]:
    text = page.read_text("utf-8")
    return [
        Example(found["code"], text.count("\n", 0, found.start("code")), found["apart"] is not None)
        for found in _BLOCK.finditer(text)
    ]


@pytest.fixture(autouse=True)
def closed_behind() -> Iterator[None]:
    """Journals that an example's pipeline opened are closed when it has run."""
    yield
    close_activation_loop()


WITH_CODE = [page for page in PAGES if examples(page)]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{stand_in}/v1")
    asyncio.run(open_journal("sqlite:///journal.db").aclose())
    namespace: dict[str, object] = {"__name__": f"docs_{page.stem}"}
    for example in examples(page):
        placed = "\n" * example.line + example.code  # so that a traceback names the line of the page
        code = compile(placed, str(page.relative_to(REPO)), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if not example.apart:
            awaited = eval(code, namespace)
            if awaited is not None:
                asyncio.run(awaited)


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_examples_import_what_there_is(page: Path) -> None:
    for example in examples(page):
        for node in ast.walk(ast.parse(example.code, mode="exec")):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("beam_agents"):
                module = importlib.import_module(str(node.module))
                exported = set(getattr(module, "__all__", ())) | set(vars(module))
                assert [alias.name for alias in node.names if alias.name not in exported] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
