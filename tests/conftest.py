"""Fixtures of several packages of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beam_agents.notices import reset_notices
from tests.cli.running import beam_agents, beam_agents_process, proxy, stand_in

__all__ = ["beam_agents", "beam_agents_process", "proxy", "stand_in"]


@pytest.fixture(autouse=True)
def nothing_told() -> Iterator[None]:
    """What one test has logged holds back nothing of the next."""
    yield
    reset_notices()
