from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TraceEvent(_message.Message):
    __slots__ = ("trace_id", "span_id", "parent_span_id", "entity_key", "seq", "step_index", "event_type", "attributes", "start_ms", "end_ms")
    class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EVENT_TYPE_UNSPECIFIED: _ClassVar[TraceEvent.EventType]
        LLM_CALL: _ClassVar[TraceEvent.EventType]
        ACTIVATION: _ClassVar[TraceEvent.EventType]
    EVENT_TYPE_UNSPECIFIED: TraceEvent.EventType
    LLM_CALL: TraceEvent.EventType
    ACTIVATION: TraceEvent.EventType
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    ENTITY_KEY_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STEP_INDEX_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    entity_key: bytes
    seq: int
    step_index: int
    event_type: TraceEvent.EventType
    attributes: _containers.ScalarMap[str, str]
    start_ms: int
    end_ms: int
    def __init__(self, trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., parent_span_id: _Optional[bytes] = ..., entity_key: _Optional[bytes] = ..., seq: _Optional[int] = ..., step_index: _Optional[int] = ..., event_type: _Optional[_Union[TraceEvent.EventType, str]] = ..., attributes: _Optional[_Mapping[str, str]] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ...) -> None: ...

class LlmCacheBlob(_message.Message):
    __slots__ = ("state_schema_version", "entries", "total_response_bytes")
    class Entry(_message.Message):
        __slots__ = ("cache_key", "response", "response_digest", "created_at_ms", "last_access_ms", "digest_only", "attempt_ordinal")
        CACHE_KEY_FIELD_NUMBER: _ClassVar[int]
        RESPONSE_FIELD_NUMBER: _ClassVar[int]
        RESPONSE_DIGEST_FIELD_NUMBER: _ClassVar[int]
        CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
        LAST_ACCESS_MS_FIELD_NUMBER: _ClassVar[int]
        DIGEST_ONLY_FIELD_NUMBER: _ClassVar[int]
        ATTEMPT_ORDINAL_FIELD_NUMBER: _ClassVar[int]
        cache_key: str
        response: bytes
        response_digest: bytes
        created_at_ms: int
        last_access_ms: int
        digest_only: bool
        attempt_ordinal: int
        def __init__(self, cache_key: _Optional[str] = ..., response: _Optional[bytes] = ..., response_digest: _Optional[bytes] = ..., created_at_ms: _Optional[int] = ..., last_access_ms: _Optional[int] = ..., digest_only: bool = ..., attempt_ordinal: _Optional[int] = ...) -> None: ...
    STATE_SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RESPONSE_BYTES_FIELD_NUMBER: _ClassVar[int]
    state_schema_version: int
    entries: _containers.RepeatedCompositeFieldContainer[LlmCacheBlob.Entry]
    total_response_bytes: int
    def __init__(self, state_schema_version: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[LlmCacheBlob.Entry, _Mapping]]] = ..., total_response_bytes: _Optional[int] = ...) -> None: ...

class AgentCell(_message.Message):
    __slots__ = ("state_schema_version", "next_seq", "agent_state", "cache", "queue", "next_position")
    class QueuedEvent(_message.Message):
        __slots__ = ("seq", "event_time_micros", "event", "deadline_ms")
        SEQ_FIELD_NUMBER: _ClassVar[int]
        EVENT_TIME_MICROS_FIELD_NUMBER: _ClassVar[int]
        EVENT_FIELD_NUMBER: _ClassVar[int]
        DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
        seq: int
        event_time_micros: int
        event: bytes
        deadline_ms: int
        def __init__(self, seq: _Optional[int] = ..., event_time_micros: _Optional[int] = ..., event: _Optional[bytes] = ..., deadline_ms: _Optional[int] = ...) -> None: ...
    STATE_SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQ_FIELD_NUMBER: _ClassVar[int]
    AGENT_STATE_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NEXT_POSITION_FIELD_NUMBER: _ClassVar[int]
    state_schema_version: int
    next_seq: int
    agent_state: bytes
    cache: LlmCacheBlob
    queue: _containers.RepeatedCompositeFieldContainer[AgentCell.QueuedEvent]
    next_position: int
    def __init__(self, state_schema_version: _Optional[int] = ..., next_seq: _Optional[int] = ..., agent_state: _Optional[bytes] = ..., cache: _Optional[_Union[LlmCacheBlob, _Mapping]] = ..., queue: _Optional[_Iterable[_Union[AgentCell.QueuedEvent, _Mapping]]] = ..., next_position: _Optional[int] = ...) -> None: ...
