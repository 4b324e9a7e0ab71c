"""The page on guarantees names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "guarantees.md").read_text()
_FILES = sorted(set(re.findall(r"`(tests/[\w/]+\.py)", _PAGE)))


def _named() -> list[tuple[str, str]]:
    """Each file and test that a line of the page names; `::test` alone means the file before it."""
    found: list[tuple[str, str]] = []
    for file, test in re.findall(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", _PAGE):
        if file or test:
            found.append((file or found[-1][0], test))
    return found


@pytest.mark.parametrize(("file", "test"), _named())
def test_what_is_said_to_hold_a_promise_is_there(file: str, test: str) -> None:
    assert f"def {test}" in (_ROOT / file).read_text()


def test_the_page_names_many() -> None:
    assert len(_FILES) >= 8
