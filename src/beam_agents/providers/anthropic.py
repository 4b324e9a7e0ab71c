"""Anthropic Messages.

Wire: https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from yarl import URL

from beam_agents.errors import ResponseDecodeError
from beam_agents.providers.anthropic_messages import anthropic_messages
from beam_agents.providers.http_client import ClientOptions, HttpClient, VendorNames
from beam_agents.providers.json_body import arguments_text, as_text, dump_body, parse_answer
from beam_agents.providers.messages import tool_definitions
from beam_agents.providers.params import renamed, wire_params
from beam_agents.providers.schema_rules import ANTHROPIC
from beam_agents.providers.structured_output import required_schema
from beam_agents.providers.usage import count, counts_of, total_usage
from beam_agents.values import DecodedResponse, LlmRequest, TokenUsage

__all__ = ["AnthropicClient", "decode_anthropic"]

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
_TOKENS = ("ANTHROPIC_AUTH_TOKEN",)
_PARAM_NAMES = {"max_tokens": "max_tokens", "max_completion_tokens": "max_tokens"}


def decode_anthropic(body: bytes) -> DecodedResponse:
    """Reads a message: text from all text blocks, thinking skipped, tool uses as tool calls.

    Raises:
        ResponseDecodeError: when there is no list of content blocks.
    """
    answer = parse_answer(body, exact=b'"tool_use"' in body)
    content = answer.get("content")
    if not isinstance(content, list):
        raise ResponseDecodeError("the answer is not an Anthropic message: it has no list of content blocks")
    blocks = [block for block in content if isinstance(block, dict)]
    texts = [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
    text = "".join(texts) if texts else None
    stop = as_text(answer.get("stop_reason"))
    return DecodedResponse(
        usage=_usage(answer),
        text=text,
        finish_reason=stop if stop is None else _FINISH.get(stop, stop),
        refusal=_refusal(answer, text) if stop == "refusal" else None,
        tool_calls=tuple(_tool_call(block) for block in blocks if block.get("type") == "tool_use"),
        response_model=as_text(answer.get("model")),
        response_id=as_text(answer.get("id")),
        vendor_finish_reason=stop,
    )


class AnthropicClient(HttpClient):
    """Client of Anthropic's Messages, or of a server that speaks them.

    Args:
        api_version: the `anthropic-version` header.
        max_tokens: sent where a request sets none, because the wire requires it.
        bearer: send the key, by default ANTHROPIC_AUTH_TOKEN, as `Authorization: Bearer`, as gateways want it.
        options: see `ClientOptions`.
    """

    provider_name = "anthropic"
    names: ClassVar[VendorNames] = VendorNames(
        "https://api.anthropic.com", ("ANTHROPIC_BASE_URL",), ("ANTHROPIC_API_KEY",)
    )
    decode = staticmethod(decode_anthropic)

    def __init__(
        self,
        *,
        api_version: str = "2023-06-01",
        max_tokens: int = 4096,
        bearer: bool = False,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._bearer = bearer
        super().__init__(**options)
        self._max_tokens = max_tokens
        self._headers.setdefault("anthropic-version", api_version)
        self._messages_url = self._address("/messages" if self._base_url.endswith("/v1") else "/v1/messages")

    def _key_names(self) -> tuple[str, ...]:
        return (*(_TOKENS if self._bearer else ()), *self.names.api_key_env)

    def _url(self, model_id: str) -> URL:  # noqa: ARG002 - this wire names the model in the body
        return self._messages_url

    def _auth(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"} if self._bearer else {"x-api-key": key}

    def _body(self, request: LlmRequest) -> bytes:
        params = wire_params(request)
        wire = {"model": request.model_id, **anthropic_messages(request.messages)}
        wire.update({"max_tokens": self._max_tokens, **renamed(params, _PARAM_NAMES)})
        wire.update(_tools(params))
        stop = params.pop("stop", None)
        if stop is not None:
            wire["stop_sequences"] = [stop] if isinstance(stop, str) else stop
        if "user" in params:
            wire["metadata"] = {"user_id": params.pop("user"), **params.pop("metadata", {})}
        schema = required_schema(params.pop("response_format", None), ANTHROPIC)
        if schema is not None:
            asked = {"format": {"type": "json_schema", "schema": schema}}
            wire["output_config"] = {**params.pop("output_config", {}), **asked}
        return dump_body({**wire, **params})


def _tools(params: dict[str, Any]) -> dict[str, Any]:
    functions, others = tool_definitions(params.pop("tools", None))
    choice = _tool_choice(params.pop("tool_choice", None))
    if params.pop("parallel_tool_calls", True) is False:
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    wire: dict[str, Any] = {}
    if functions or others:
        wire["tools"] = [*map(_tool, functions), *others]
    return wire if choice is None else {**wire, "tool_choice": choice}


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: function[name] for name in ("name", "description", "strict") if function.get(name) is not None}
    return {**known, "input_schema": function.get("parameters") or {"type": "object", "properties": {}}}


def _tool_choice(choice: Any) -> dict[str, Any] | None:
    if isinstance(choice, str):
        return {"type": {"required": "any"}.get(choice, choice)}
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        return {"type": "tool", "name": choice["function"].get("name")}
    return dict(choice) if isinstance(choice, Mapping) else None


def _tool_call(block: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": as_text(block.get("name")) or "", "arguments": arguments_text(block.get("input"))}
    return {"id": as_text(block.get("id")) or "", "type": "function", "function": function}


def _refusal(answer: Mapping[str, Any], text: str | None) -> str:
    details = counts_of(answer.get("stop_details"))
    return text or as_text(details.get("explanation")) or "the model refused without words"


def _usage(answer: Mapping[str, Any]) -> TokenUsage | None:
    """The wire counts cached tokens beside `input_tokens`; thinking is inside `output_tokens`."""
    said = counts_of(answer.get("usage"))
    fresh, cached = count(said.get("input_tokens")), count(said.get("cache_read_input_tokens"))
    written = count(said.get("cache_creation_input_tokens"))
    prompt = None if fresh is None else fresh + (cached or 0) + (written or 0)
    thinking = count(counts_of(said.get("output_tokens_details")).get("thinking_tokens"))
    return total_usage(prompt, count(said.get("output_tokens")), None, cached=cached, reasoning=thinking)
