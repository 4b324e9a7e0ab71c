"""OpenAI chat completions, and every server that speaks them: vLLM, llama.cpp, Azure-shaped gateways.

Wire: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Unpack

from yarl import URL

from beam_agents.errors import ResponseDecodeError
from beam_agents.providers.http_client import ClientOptions, HttpClient, VendorNames
from beam_agents.providers.json_body import arguments_text, as_text, dump_body, parse_answer
from beam_agents.providers.params import wire_params
from beam_agents.providers.structured_output import openai_response_format
from beam_agents.providers.usage import count, counts_of, total_usage
from beam_agents.values import DecodedResponse, LlmRequest, TokenUsage

__all__ = ["OpenAIClient", "decode_openai"]

_FINISH = {"function_call": "tool_calls", "max_tokens": "length", "model_length": "length"}
_TEXT_PARTS = ("text", "output_text")
_AZURE_KEYS = ("AZURE_OPENAI_API_KEY", "OPENAI_API_KEY")


def decode_openai(body: bytes) -> DecodedResponse:
    """Reads a chat completion.

    Raises:
        ResponseDecodeError: when there is no choice with a message.
    """
    answer = parse_answer(body)
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ResponseDecodeError("the answer is not a chat completion: it has no choices[0].message")
    refusal = message.get("refusal") or _joined(message.get("content"), ("refusal",), "refusal")
    vendor_finish = as_text(choice.get("finish_reason"))
    tool_calls = _tool_calls(message)
    return DecodedResponse(
        usage=_usage(answer),
        text=_joined(message.get("content"), _TEXT_PARTS, "text"),
        finish_reason=_finish(vendor_finish, bool(refusal), bool(tool_calls)),
        refusal=as_text(refusal),
        tool_calls=tool_calls,
        response_model=as_text(answer.get("model")),
        response_id=as_text(answer.get("id")),
        vendor_finish_reason=vendor_finish,
    )


class OpenAIClient(HttpClient):
    """Client of one endpoint that speaks chat completions.

    Args:
        organization, project: sent as `OpenAI-Organization` and `OpenAI-Project`; default OPENAI_ORG_ID and
            OPENAI_PROJECT_ID.
        api_version: `api-version` in the query, for Azure-shaped gateways; default OPENAI_API_VERSION where `auth` is
            `api-key`.
        auth: `bearer` sends `Authorization`, `api-key` sends the header of that name (AZURE_OPENAI_API_KEY).
        options: see `ClientOptions`. `base_url` may hold `{model}`.
    """

    provider_name = "openai"
    names: ClassVar[VendorNames] = VendorNames(
        "https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE"), ("OPENAI_API_KEY",)
    )
    decode = staticmethod(decode_openai)

    def __init__(
        self,
        *,
        organization: str | None = None,
        project: str | None = None,
        api_version: str | None = None,
        auth: Literal["bearer", "api-key"] = "bearer",
        **options: Unpack[ClientOptions],
    ) -> None:
        if auth not in ("bearer", "api-key"):
            raise ValueError(f"auth={auth!r} must be 'bearer' or 'api-key'")
        self._auth_scheme = auth
        super().__init__(**options)
        if auth == "api-key":
            api_version = api_version or os.environ.get("OPENAI_API_VERSION")
        self._version = {} if api_version is None else {"api-version": api_version}
        for header, value, env_name in (
            ("OpenAI-Organization", organization, "OPENAI_ORG_ID"),
            ("OpenAI-Project", project, "OPENAI_PROJECT_ID"),
        ):
            if found := value or os.environ.get(env_name):
                self._headers.setdefault(header, found)
        self._urls: dict[str, URL] = {}

    def _key_names(self) -> tuple[str, ...]:
        return self.names.api_key_env if self._auth_scheme == "bearer" else _AZURE_KEYS

    def _url(self, model_id: str) -> URL:
        if model_id not in self._urls:
            self._urls[model_id] = self._address("/chat/completions", model_id).update_query(self._version)
        return self._urls[model_id]

    def _auth(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"} if self._auth_scheme == "bearer" else {"api-key": key}

    def _body(self, request: LlmRequest) -> bytes:
        params = wire_params(request)
        if "response_format" in params:
            params["response_format"] = openai_response_format(params["response_format"])
        return dump_body({"model": request.model_id, "messages": request.messages, **params})


def _joined(content: object, kinds: tuple[str, ...], name: str) -> str | None:
    if isinstance(content, str):
        return content if name == "text" else None
    parts = content if isinstance(content, list) else ()
    found = [
        part[name]
        for part in parts
        if isinstance(part, dict) and part.get("type") in kinds and isinstance(part.get(name), str)
    ]
    return "".join(found) if found else None


def _finish(vendor_finish: str | None, refused: bool, called: bool) -> str | None:
    if vendor_finish in (None, "stop"):
        return "refusal" if refused else "tool_calls" if called else vendor_finish
    return _FINISH.get(vendor_finish.casefold(), vendor_finish)


def _tool_calls(message: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    calls = message.get("tool_calls")
    if not calls and isinstance(message.get("function_call"), dict):
        calls = [{"function": message["function_call"]}]
    return tuple(_tool_call(call) for call in calls if isinstance(call, dict)) if isinstance(calls, list) else ()


def _tool_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """As it is, where it is of the promised form; other kinds of calls too."""
    function = call.get("function")
    if not isinstance(function, dict) or (isinstance(function.get("arguments"), str) and "type" in call):
        return call
    return {
        "type": "function",
        **call,
        "function": {**function, "arguments": arguments_text(function.get("arguments"))},
    }


def _usage(answer: Mapping[str, Any]) -> TokenUsage | None:
    said = counts_of(answer.get("usage"))
    cached = count(counts_of(said.get("prompt_tokens_details")).get("cached_tokens"))
    return total_usage(
        count(said.get("prompt_tokens")),
        count(said.get("completion_tokens")),
        count(said.get("total_tokens")),
        cached=count(said.get("prompt_cache_hit_tokens")) if cached is None else cached,
        reasoning=count(counts_of(said.get("completion_tokens_details")).get("reasoning_tokens")),
    )
