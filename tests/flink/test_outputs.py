from __future__ import annotations

import pytest

from beam_agents.flink.outputs import to_text


@pytest.mark.parametrize(
    ("output", "text"), [("as it is", "as it is"), ({"a": 1}, '{"a":1}'), (3, "3"), (True, "true")]
)
def test_outputs_become_text(output, text):
    assert to_text(output) == text


def test_an_output_that_is_no_json_is_refused_with_advice():
    with pytest.raises(TypeError, match=r"type object is no JSON value.*declare output_type"):
        to_text(object())
