from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.activation.events import decode_event, encode_event

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON | st.binary() | st.tuples(st.integers(), st.text()) | st.sets(st.integers()))
def test_events_come_back_as_they_were(event):
    decoded = decode_event(encode_event(event))
    assert decoded == event
    assert type(decoded) is type(event)


@pytest.mark.parametrize(
    ("event", "kind"),
    [({"a": [1, "x"]}, b"j"), ("text", b"j"), (b"raw", b"b"), ((1, 2), b"p"), ({1: 2}, b"p"), (2**70, b"p")],
)
def test_only_what_json_cannot_hold_is_pickled(event, kind):
    assert encode_event(event)[:1] == kind


def test_infinity_comes_back():
    assert decode_event(encode_event({"x": math.inf})) == {"x": math.inf}


def test_unknown_bytes_are_refused():
    with pytest.raises(ValueError, match="unknown kind b'z'"):
        decode_event(b"zabc")


def test_an_event_that_cannot_be_kept_names_its_type_and_what_to_do():
    class Local:
        pass

    with pytest.raises(TypeError, match=r"test_events\..*Local cannot be kept in state: .*Put its class into a module"):
        encode_event(Local())
