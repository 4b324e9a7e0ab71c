"""What was once written stays readable: golden files, frozen field numbers, unknown fields."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from beam_agents.model import ReplayCache
from beam_agents.proto import AgentCell, LlmCacheBlob, TraceEvent
from tests.proto.examples import EXAMPLES, GOLDEN


def fields_on_the_wire(data: bytes) -> Iterator[tuple[int, int]]:
    """Number and wire type of each field, read without protobuf."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            varint()
        elif wire_type == 1:
            at += 8
        elif wire_type == 2:
            length = varint()
            at += length
        else:
            raise AssertionError(f"wire type {wire_type}")
        yield number, wire_type
    assert at == len(data)


def test_every_golden_file_has_its_example():
    assert {path.stem for path in GOLDEN.glob("*.binpb")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_files_are_read_and_written_back_byte_for_byte(name):
    golden = (GOLDEN / f"{name}.binpb").read_bytes()
    message = type(EXAMPLES[name]).FromString(golden)
    assert message == EXAMPLES[name]
    assert message.SerializeToString(deterministic=True) == golden


def test_field_numbers_on_the_wire_are_those_of_the_golden_files():
    def wire(name: str) -> set[tuple[int, int]]:
        return set(fields_on_the_wire((GOLDEN / f"{name}.binpb").read_bytes()))

    assert wire("trace_event") == {(1, 2), (2, 2), (3, 2), (4, 2), (5, 0), (6, 0), (7, 0), (8, 2), (9, 0), (10, 0)}
    assert wire("llm_cache_blob") == {(1, 0), (2, 2), (3, 0)}
    assert wire("agent_cell") == {(1, 0), (2, 0), (3, 2), (4, 2), (5, 2), (6, 0)}
    first = LlmCacheBlob.FromString((GOLDEN / "llm_cache_blob.binpb").read_bytes()).entries[0]
    assert set(fields_on_the_wire(first.SerializeToString())) == {(1, 2), (2, 2), (3, 2), (4, 1), (5, 1), (7, 0)}


FROZEN = {
    "TraceEvent": "trace_id=1:bytes span_id=2:bytes parent_span_id=3:bytes entity_key=4:bytes seq=5:int64 "
    "step_index=6:int64 event_type=7:enum attributes=8:message* start_ms=9:int64 end_ms=10:int64",
    "LlmCacheBlob": "state_schema_version=1:uint32 entries=2:message* total_response_bytes=3:uint64",
    "LlmCacheBlob.Entry": "cache_key=1:string response=2:bytes response_digest=3:bytes created_at_ms=4:sfixed64 "
    "last_access_ms=5:sfixed64 digest_only=6:bool attempt_ordinal=7:uint32",
    "AgentCell": "state_schema_version=1:uint32 next_seq=2:int64 agent_state=3:bytes cache=4:message "
    "queue=5:message* next_position=6:int64",
    "AgentCell.QueuedEvent": "seq=1:int64 event_time_micros=2:int64 event=3:bytes deadline_ms=4:int64",
}
"""Fields that exist for good. New ones are added here; these lines are never changed."""


def described(descriptor: Descriptor) -> set[str]:
    kinds = {value: name[5:].lower() for name, value in vars(FieldDescriptor).items() if name.startswith("TYPE_")}
    repeated = {field.name for field in descriptor.fields if isinstance(getattr(field, "default_value", None), list)}
    return {
        f"{field.name}={field.number}:{kinds[field.type]}{'*' if field.name in repeated else ''}"
        for field in descriptor.fields
    }


@pytest.mark.parametrize("name", FROZEN)
def test_no_field_is_ever_renumbered_retyped_or_removed(name):
    message = {"TraceEvent": TraceEvent, "LlmCacheBlob": LlmCacheBlob, "AgentCell": AgentCell}[name.split(".")[0]]
    descriptor = message.DESCRIPTOR
    if "." in name:
        descriptor = descriptor.nested_types_by_name[name.split(".")[1]]
    assert set(FROZEN[name].split()) <= described(descriptor)


def test_event_types_keep_their_numbers():
    assert (
        dict(TraceEvent.EventType.items()).items()
        >= {
            "EVENT_TYPE_UNSPECIFIED": 0,
            "LLM_CALL": 1,
            "ACTIVATION": 2,
        }.items()
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_fields_of_a_newer_version_survive_this_one(name):
    newer = (GOLDEN / f"{name}.binpb").read_bytes() + b"\xfa\x3f\x05later"  # field 1023
    message = type(EXAMPLES[name]).FromString(newer)
    assert message.SerializeToString(deterministic=True) == newer


def test_an_event_type_of_a_newer_version_is_kept():
    event = TraceEvent.FromString(b"\x38\x63")  # event_type = 99
    assert event.event_type == 99
    assert event.SerializeToString() == b"\x38\x63"


def test_the_replay_cache_serves_from_a_golden_blob():
    cache = ReplayCache((GOLDEN / "llm_cache_blob.binpb").read_bytes(), now_ms=1_700_000_360_000)
    entry = cache.get("ab" * 32)
    assert (entry.response, entry.attempt_ordinal, entry.intact) == (b'{"text": "h\xc3\xa9llo"}\x00\xff', 3, True)
    again = ReplayCache((GOLDEN / "llm_cache_blob.binpb").read_bytes(), now_ms=0)
    assert again.get("cd" * 32).digest_only
