"""Positions that events give themselves."""

from __future__ import annotations

from typing import Any

import pytest

from beam_agents.activation import AgentConfig
from beam_agents.activation.numbering import seq_of


class Integer:
    """An integer that is none of Python's, as NumPy's are."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize("given", [7, Integer()])
def test_any_integer_is_a_position(given: Any) -> None:
    seq = seq_of(given, 0, AgentConfig("openai:m", sequence=lambda event: event))
    assert (seq, type(seq)) == (7, int)


@pytest.mark.parametrize("given", [True, 7.0, "7", None])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=f"sequence must return an int, not {type(given).__name__}"):
        seq_of(given, 0, AgentConfig("openai:m", sequence=lambda event: event))
