"""Gemini `generateContent`.

Wire: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from yarl import URL

from beam_agents.errors import ResponseDecodeError
from beam_agents.providers.gemini_contents import SYNTHETIC_ID, gemini_contents
from beam_agents.providers.http_client import ClientOptions, HttpClient, VendorNames
from beam_agents.providers.json_body import arguments_text, as_text, dump_body, parse_answer
from beam_agents.providers.messages import tool_definitions
from beam_agents.providers.params import renamed, wire_params
from beam_agents.providers.schema_rules import GEMINI
from beam_agents.providers.structured_output import required_schema
from beam_agents.providers.usage import count, counts_of, total_usage
from beam_agents.values import DecodedResponse, LlmRequest, TokenUsage

__all__ = ["GeminiClient", "decode_gemini"]

_BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
)
_PARAM_NAMES = {
    "frequency_penalty": "frequencyPenalty",
    "logprobs": "responseLogprobs",
    "max_completion_tokens": "maxOutputTokens",
    "max_tokens": "maxOutputTokens",
    "n": "candidateCount",
    "presence_penalty": "presencePenalty",
    "seed": "seed",
    "temperature": "temperature",
    "top_k": "topK",
    "top_logprobs": "logprobs",
    "top_p": "topP",
}


def decode_gemini(body: bytes) -> DecodedResponse:
    """Reads a `GenerateContentResponse`; a blocked prompt is an answer without text.

    Raises:
        ResponseDecodeError: when there is neither a candidate nor a block reason.
    """
    answer = parse_answer(body, exact=b'"functionCall"' in body)
    candidates = answer.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else None
    if candidate is None:
        return _blocked_prompt(answer)
    if not isinstance(candidate, dict) or not ("content" in candidate or candidate.get("finishReason")):
        raise ResponseDecodeError("the answer's first candidate has neither content nor finishReason")
    found = counts_of(candidate.get("content")).get("parts")
    parts = [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought")]
    calls = tuple(_tool_call(part, index) for index, part in enumerate(parts) if _is_call(part))
    finish = as_text(candidate.get("finishReason"))
    return DecodedResponse(
        usage=_usage(answer),
        text="".join(texts) if texts else None,
        finish_reason=_finish(finish, bool(calls)),
        tool_calls=calls,
        response_model=as_text(answer.get("modelVersion")),
        response_id=as_text(answer.get("responseId")),
        vendor_finish_reason=finish,
    )


class GeminiClient(HttpClient):
    """Client of Gemini, or of a server that speaks `generateContent`.

    Args:
        api_version: the version in the path.
        options: see `ClientOptions`.
    """

    provider_name = "gemini"
    names: ClassVar[VendorNames] = VendorNames(
        "https://generativelanguage.googleapis.com",
        ("GOOGLE_GEMINI_BASE_URL",),
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    )
    decode = staticmethod(decode_gemini)

    def __init__(self, *, api_version: str = "v1beta", **options: Unpack[ClientOptions]) -> None:
        super().__init__(**options)
        self._root = "" if self._base_url.endswith(f"/{api_version}") else f"/{api_version}"
        self._urls: dict[str, URL] = {}

    def _url(self, model_id: str) -> URL:
        if model_id not in self._urls:
            name = model_id if "/" in model_id else f"models/{model_id}"
            self._urls[model_id] = self._address(f"{self._root}/{name}:generateContent", model_id)
        return self._urls[model_id]

    def _auth(self, key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key}

    def _body(self, request: LlmRequest) -> bytes:
        params = wire_params(request)
        config = renamed(params, _PARAM_NAMES)
        stop = params.pop("stop", None)
        if stop is not None:
            config["stopSequences"] = [stop] if isinstance(stop, str) else stop
        schema = required_schema(params.pop("response_format", None), GEMINI)
        if schema is not None:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        config |= params.pop("generationConfig", {})
        wire = {**gemini_contents(request.messages), **_tools(params)}
        return dump_body({**wire, **({"generationConfig": config} if config else {}), **params})


def _tools(params: dict[str, Any]) -> dict[str, Any]:
    functions, others = tool_definitions(params.pop("tools", None))
    declared = [{"functionDeclarations": [_declaration(function) for function in functions]}] if functions else []
    wire: dict[str, Any] = {"tools": [*declared, *others]} if declared or others else {}
    choice = params.pop("tool_choice", None)
    if choice is not None:
        wire["toolConfig"] = {"functionCallingConfig": _calling(choice)}
    return wire


def _declaration(function: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: function[name] for name in ("name", "description") if function.get(name) is not None}
    parameters = function.get("parameters")
    return {**known, "parametersJsonSchema": parameters} if parameters else known


def _calling(choice: Any) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"mode": {"required": "ANY"}.get(choice, choice.upper())}
    named = choice.get("function") if isinstance(choice, Mapping) else None
    if not isinstance(named, Mapping) or not isinstance(named.get("name"), str):
        raise ValueError("tool_choice must be auto, none, required, or name a function")
    return {"mode": "ANY", "allowedFunctionNames": [named["name"]]}


def _is_call(part: Mapping[str, Any]) -> bool:
    return isinstance(part.get("functionCall"), dict)


def _tool_call(part: Mapping[str, Any], index: int) -> dict[str, Any]:
    """A tool call; the vendor's thought signature travels along, because the next request must return it."""
    said = part["functionCall"]
    function = {"name": as_text(said.get("name")) or "", "arguments": arguments_text(said.get("args"))}
    call = {"id": as_text(said.get("id")) or f"{SYNTHETIC_ID}{index}", "type": "function", "function": function}
    signature = part.get("thoughtSignature")
    return call if signature is None else {**call, "extra_content": {"google": {"thought_signature": signature}}}


def _blocked_prompt(answer: Mapping[str, Any]) -> DecodedResponse:
    feedback = counts_of(answer.get("promptFeedback"))
    reason = as_text(feedback.get("blockReason"))
    if reason is None:
        raise ResponseDecodeError("the answer has neither candidates nor a block reason")
    return DecodedResponse(
        usage=_usage(answer),
        text=None,
        finish_reason="content_filter",
        refusal=as_text(feedback.get("blockReasonMessage")),
        response_model=as_text(answer.get("modelVersion")),
        response_id=as_text(answer.get("responseId")),
        vendor_finish_reason=reason,
    )


def _finish(finish: str | None, called: bool) -> str | None:
    if finish in _BLOCKED:
        return "content_filter"
    if finish == "STOP":
        return "tool_calls" if called else "stop"
    return "length" if finish == "MAX_TOKENS" else finish


def _usage(answer: Mapping[str, Any]) -> TokenUsage | None:
    """The wire counts tool prompts beside the prompt and thoughts beside the candidates, and omits zeros."""
    said = counts_of(answer.get("usageMetadata"))
    prompt, total = count(said.get("promptTokenCount")), count(said.get("totalTokenCount"))
    answered, thoughts = count(said.get("candidatesTokenCount")), count(said.get("thoughtsTokenCount"))
    if prompt is not None:
        prompt += count(said.get("toolUsePromptTokenCount")) or 0
    if answered is None and thoughts is not None:
        answered = 0
    if answered is not None and prompt is not None and total != prompt + answered:
        answered += thoughts or 0
    cached = count(said.get("cachedContentTokenCount"))
    return total_usage(prompt, answered, total, cached=cached, reasoning=thoughts)
