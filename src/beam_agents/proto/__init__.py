"""Protobuf messages of traces and keyed state, generated from `messages.proto`."""

from beam_agents.proto.messages_pb2 import AgentCell, LlmCacheBlob, TraceEvent

__all__ = ["AgentCell", "LlmCacheBlob", "TraceEvent"]
