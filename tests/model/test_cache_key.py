"""The cache key: golden vectors written down by hand, agreement with `json.dumps`, and what is refused."""

from __future__ import annotations

import datetime
import enum
import json
import os
import subprocess
import sys
import uuid
from collections import namedtuple
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.model import compute_cache_key
from beam_agents.model.cache_key import _exact, _orjson_is_exact_for, canonical_json

USER = [{"role": "user", "content": "hi"}]


def key(messages=USER, *, model="m-1", tools=None, params=None, entity_key=b"k", seq=0) -> str:
    return compute_cache_key(model, messages, tools, params, entity_key, seq)


def plain(value) -> bytes:
    """The definition in the words of the standard library."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


# Golden vectors: the canonical bytes are literal, their digests were computed with sha256sum

GOLDEN = {
    "the smallest request": (
        ("m-1", [], None, None, b"", 0),
        '{"key":"","messages":[],"model":"m-1","params":null,"seq":0,"tools":null}',
        "e1a5dee8133eb1c61a4bbbefa9cb875077ba6d59d6f71185b75db29fec3025d7",
    ),
    "keys are sorted at every depth": (
        ("gpt-4o", [{"role": "user", "content": "hi"}], None, {"top_p": 1, "a": {"z": 1, "b": 2}}, b"\x00\xffk", -3),
        '{"key":"00ff6b","messages":[{"content":"hi","role":"user"}],"model":"gpt-4o",'
        '"params":{"a":{"b":2,"z":1},"top_p":1},"seq":-3,"tools":null}',
        "5d7aba4e2b476bd3016d62ffd90e09d5c44c3a29ed254f2c65fc9489cbaef9c7",
    ),
    "floats in their shortest form": (
        (
            "m",
            [],
            None,
            {"f": [0.1, 1.0, -0.0, 1e-7, 1e16, 123456789012345680.0, 5e-324, 1.7976931348623157e308]},
            b"k",
            0,
        ),
        '{"key":"6b","messages":[],"model":"m","params":{"f":[0.1,1.0,-0.0,1e-07,1e+16,1.2345678901234568e+17,'
        '5e-324,1.7976931348623157e+308]},"seq":0,"tools":null}',
        "bf4c336e757e0a4401dd11caf2ccfd4fbb7129b62620dac0f9a0058db1b81efd",
    ),
    "ints of any size": (
        ("m", [], None, {"i": [2**63 - 1, -(2**63), 2**63, 2**64, -(2**64), 10**30]}, b"k", 2**63 - 1),
        '{"key":"6b","messages":[],"model":"m","params":{"i":[9223372036854775807,-9223372036854775808,'
        "9223372036854775808,18446744073709551616,-18446744073709551616,1000000000000000000000000000000]},"
        '"seq":9223372036854775807,"tools":null}',
        "734881fa73a64816e666c46d119bbdf6309b49cd538fa6445b48af6a6ca99662",
    ),
    "text is unescaped UTF-8 beyond the basic plane": (
        ("m", [{"content": "Zürich 日本 😀 \U0010ffff"}], None, None, b"k", 0),
        '{"key":"6b","messages":[{"content":"Zürich 日本 😀 \U0010ffff"}],"model":"m",'
        '"params":null,"seq":0,"tools":null}',
        "1ded6fbd5ce9e43855d01bad3770c04913b9f6fbe578835f11dab13dd2e5260e",
    ),
    "control characters, quotes and backslashes are escaped, slashes and DEL are not": (
        ("m", [{"content": '\x00\x08\t\n\x0b\x0c\r\x1f "\\/\x7f\u2028'}], None, None, b"k", 0),
        '{"key":"6b","messages":[{"content":"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \\"\\\\/\x7f\u2028"}],'
        '"model":"m","params":null,"seq":0,"tools":null}',
        "1ce66f97e9aba1cad98fdeb078929f95ce92531055af7d1530f15b036d3f3caa",
    ),
    "keys are ordered by code point, not by UTF-16 unit": (
        ("m", [{"\U00010000": 1, "\uffff": 2, "é": 3, "z": 4, "Z": 5, "": 6}], None, None, b"k", 0),
        '{"key":"6b","messages":[{"":6,"Z":5,"z":4,"é":3,"\uffff":2,"\U00010000":1}],'
        '"model":"m","params":null,"seq":0,"tools":null}',
        "7cc53a12c1608cb1287ad20a078d7763d2c71e36ad9fcf36e1bfe74c3f005d6c",
    ),
    "tools and every scalar": (
        (
            "m",
            [],
            [{"type": "function", "function": {"name": "f", "strict": True, "x": None, "y": False}}],
            {},
            b"k",
            1,
        ),
        '{"key":"6b","messages":[],"model":"m","params":{},"seq":1,'
        '"tools":[{"function":{"name":"f","strict":true,"x":null,"y":false},"type":"function"}]}',
        "6248d831f9f5145e5271a5e13840f61ca501d198746f01c581de31b8b1544004",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_vectors(name):
    parts, canonical, digest = GOLDEN[name]
    assert sha256(canonical.encode()).hexdigest() == digest
    assert compute_cache_key(*parts) == digest


def test_golden_vector_of_depth_two_thousand():
    deep: list = []
    for _ in range(1_999):
        deep = [deep]
    canonical = (
        b'{"key":"6b","messages":' + b"[" * 2_000 + b"]" * 2_000 + b',"model":"m-1","params":null,"seq":0,"tools":null}'
    )
    assert key(deep) == sha256(canonical).hexdigest()
    nested: dict = {}
    for _ in range(1_999):
        nested = {"a": nested}
    assert canonical_json([nested]) == b"[" + b'{"a":' * 1_999 + b"{}" + b"}" * 1_999 + b"]"


# What is told apart, and what is not


def test_each_of_the_six_parts_matters():
    variants = [
        key(),
        key(model="m-2"),
        key([{"role": "user", "content": "hi!"}]),
        key(tools=[]),
        key(params={}),
        key(params={"temperature": 0}),
        key(entity_key=b"k2"),
        key(seq=1),
    ]
    assert len(set(variants)) == len(variants)


def test_one_one_point_zero_and_true_are_three_values():
    assert len({key(params={"n": value}) for value in (1, 1.0, True, "1", [1], None)}) == 6
    assert len({key(params={"n": value}) for value in (0, 0.0, -0.0, False, "")}) == 5


def test_composed_and_decomposed_text_differ():
    assert key([{"content": "\u00e9"}]) != key([{"content": "e\u0301"}])


def test_the_order_of_a_dict_does_not_matter_but_that_of_a_list_does():
    assert key([{"a": 1, "b": [1, 2]}]) == key([{"b": [1, 2], "a": 1}])
    assert key([{"a": 1, "b": [1, 2]}]) != key([{"a": 1, "b": [2, 1]}])


def test_tuples_are_arrays():
    point = namedtuple("point", "x y")
    assert key(({"content": (1, (2.5, "x"))},)) == key([{"content": [1, [2.5, "x"]]}])
    assert key([point(1, 2)]) == key([[1, 2]])


def test_subclasses_of_plain_types_count_as_what_they_are():
    class Role(enum.StrEnum):
        USER = "user"

    class Level(enum.IntEnum):
        HIGH = 3

    class Named(dict):
        pass

    class Share(float):
        pass

    assert key([{"role": Role.USER}]) == key([{"role": "user"}])
    assert key([{Role.USER: 1}]) == key([{"user": 1}])
    assert key(params={"n": Level.HIGH}) == key(params={"n": 3})
    assert key([Named(a=1)]) == key([{"a": 1}])
    assert key([Share(0.5)]) == key([0.5])


@pytest.mark.parametrize("entity_key", [bytearray(b"k"), memoryview(b"k")])
def test_an_entity_key_may_be_any_kind_of_bytes(entity_key):
    assert key(entity_key=entity_key) == key(entity_key=b"k")


def test_text_of_five_megabytes_has_a_key():
    text = "żółw " * 1_000_000
    canonical = (
        '{"key":"6b","messages":[{"content":"' + text + '"}],"model":"m-1","params":null,"seq":0,"tools":null}'
    ).encode()
    assert key([{"content": text}]) == sha256(canonical).hexdigest()


def test_ints_beyond_the_interpreter_s_digit_limit_have_a_key():
    digits = "1" + "0" * 10_000 + "7"
    huge = 10**10_001 + 7
    assert canonical_json([huge, -huge]) == f"[{digits},-{digits}]".encode()


def test_one_object_used_twice_is_no_cycle():
    shared = {"a": 2**70}
    assert canonical_json([shared, shared]) == b'[{"a":1180591620717411303424},{"a":1180591620717411303424}]'


# What is refused


@dataclass
class Point:
    x: int = 1


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset(),
        b"bytes",
        bytearray(b"x"),
        object(),
        Point(),
        1j,
        datetime.datetime(2024, 1, 1),
        datetime.date(2024, 1, 1),
        uuid.UUID(int=0),
        MappingProxyType({"a": 1}),
        enum.Enum("Plain", "A").A,
        range(3),
        {1: "int key"},
        {"a": 1, 2: "mixed"},
        {None: 1},
        {True: 1},
        {b"a": 1},
        {(): 1},
    ],
    ids=lambda value: f"{type(value).__name__}-{len(value) if hasattr(value, '__len__') else ''}",
)
def test_what_json_cannot_hold_is_a_type_error(value):
    for parts in ({"messages": [value]}, {"params": {"x": [value]}}, {"tools": value}):
        with pytest.raises(TypeError):
            key(**parts)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinities_are_a_value_error(value):
    with pytest.raises(ValueError, match="JSON cannot hold it"):
        key(params={"temperature": value})


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "\ude00\ud83d"])
def test_lone_surrogates_are_a_value_error(text):
    for parts in ({"messages": [{"content": text}]}, {"messages": [{text: 1}]}, {"model": text}):
        with pytest.raises(ValueError, match="lone surrogate"):
            key(**parts)


def test_a_request_that_contains_itself_is_a_value_error():
    loop: list = []
    loop.append({"again": loop})
    with pytest.raises(ValueError, match="contains itself"):
        key(loop)


@pytest.mark.parametrize(
    "wrong", [{"model": b"m"}, {"model": None}, {"entity_key": "k"}, {"seq": 1.0}, {"seq": True}, {"seq": None}]
)
def test_scope_of_the_wrong_type_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="must be"):
        key(**wrong)


# Two processes, two paths

PRINT_KEY = """
from beam_agents.model import compute_cache_key
params = {name: {name * 2: [1.5, 10**25, "é😀"]} for name in "zyxwvutsrqponmlkjihgfedcba"}
print(compute_cache_key("m", [{"role": "user", "content": "hi"}], [{"b": 1, "a": {"d": 1, "c": 2}}], params, b"k", 7))
"""


def test_the_key_is_equal_in_processes_with_other_hash_seeds():
    found = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        found.add(
            subprocess.run([sys.executable, "-c", PRINT_KEY], env=environment, capture_output=True, check=True).stdout
        )
    assert len(found) == 1
    assert len(found.pop().strip()) == 64


_texts = st.text(st.characters(exclude_categories=["Cs"]))
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e-3, 9.99e-4, 1e15, 1e16, 1e17, -1e-5, 0.1 + 0.2, 2.0**53, 1 / 3]),
    _texts,
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.lists(inner, max_size=5).map(tuple), st.dictionaries(_texts, inner, max_size=5)
    ),
    max_leaves=25,
)


@given(_values)
def test_fast_path_exact_path_and_the_standard_library_agree(value):
    assert canonical_json(value) == _exact(value) == plain(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_written_as_python_writes_it(value):
    assert canonical_json([value]) == f"[{value!r}]".encode()


def test_ordinary_requests_take_the_fast_path():
    request = {
        "messages": [
            {"role": "user", "content": "é" * 100},
            {"role": "tool", "content": [{"type": "text", "text": "x"}]},
        ],
        "params": {"temperature": 0.7, "max_tokens": 4_096, "top_p": 1.0, "stop": None, "stream": False},
    }
    assert _orjson_is_exact_for(request)
    assert not _orjson_is_exact_for([1e-5])
    assert (
        canonical_json([2**63, 2**64 - 1, 2**64]) == b"[9223372036854775808,18446744073709551615,18446744073709551616]"
    )
