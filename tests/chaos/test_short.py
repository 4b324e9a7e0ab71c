"""Chaos in short: workers killed at random moments, then every row once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chaos.scenarios import SCENARIOS, Setting

# An event that failed in a killed life and not in the next changes its key's state, so that later questions differ.
_ASKS_ANEW = {"dead_letters"}
_NEEDS = {"failing_syncs": "fiu-run", "full_disk": "fiu-run", "redis_restarted": "redis-server"}


def _holds(row: str, setting: Setting) -> None:
    result = SCENARIOS[row](setting)
    assert result.problems == ()
    assert result.holds
    assert result.calls > setting.keys
    assert result.answered >= (setting.keys if row in _ASKS_ANEW else result.calls)


def test_workers_killed_at_random_moments(tmp_path: Path) -> None:
    _holds("killed", Setting(tmp_path, "short", keys=16, kills=2))


@pytest.mark.services
@pytest.mark.parametrize("row", list(SCENARIOS))
def test_every_row(tmp_path: Path, row: str) -> None:
    missing = row in _NEEDS and shutil.which(_NEEDS[row]) is None
    assert not missing, f"{_NEEDS[row]} is missing: apt-get install fiu-utils redis-server"
    _holds(row, Setting(tmp_path, f"short/{row}", keys=40, kills=2))
