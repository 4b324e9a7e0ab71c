"""Prompts and answers as trace attributes, in the GenAI convention's form. Only where it was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beam_agents import attributes as names
from beam_agents.providers.redaction import without_keys
from beam_agents.values import DecodedResponse, Json, JsonObject, LlmRequest

__all__ = ["MAX_CHARS", "Redact", "record_content"]

MAX_CHARS: Final = 65_536
"""Characters of text kept of one prompt, and of one answer; the rest is cut, and the cut is told."""

Redact = Callable[[str], str]
"""Takes a text of a prompt or an answer and returns what may be kept of it."""

_FINISH: Final = {"tool_calls": "tool_call", "refusal": "content_filter"}


def record_content(
    request: LlmRequest, decoded: DecodedResponse | None, redact: Redact | None = None
) -> Mapping[str, str]:
    """The attributes that hold prompt and answer. Never raises.

    Every text goes through `redact`, with what looks like a provider's key already masked. When that fails,
    neither prompt nor answer is recorded, and an attribute names the error's class.
    """
    try:
        found = {names.GEN_AI_INPUT_MESSAGES: _Texts(redact).dump(request.messages)}
        if decoded is not None:
            found[names.GEN_AI_OUTPUT_MESSAGES] = _Texts(redact).dump([_answer(decoded)])
    except Exception as error:
        return {names.CONTENT_WITHHELD: type(error).__name__}
    return found


def _answer(decoded: DecodedResponse) -> JsonObject:
    said = decoded.text if decoded.text is not None else decoded.refusal
    return {
        "role": "assistant",
        "content": said,
        "tool_calls": list(decoded.tool_calls),
        "finish_reason": _FINISH.get(decoded.finish_reason or "", decoded.finish_reason) or "unknown",
    }


@dataclass(slots=True)
class _Texts:
    """Turns chat-completions-shaped messages into the convention's, each text redacted, then cut to what is left."""

    redact: Redact | None
    left: int = MAX_CHARS

    def dump(self, messages: Sequence[JsonObject]) -> str:
        told = json.dumps([self._message(message) for message in messages], ensure_ascii=False)
        return told.encode("utf-8", "replace").decode("utf-8")

    def _message(self, message: JsonObject) -> dict[str, object]:
        role, content = str(message.get("role", "user")), message.get("content")
        if role == "tool":
            response = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": self._all(content)}
            return {"role": role, "parts": [response]}
        parts = self._parts(content)
        calls = message.get("tool_calls")
        if isinstance(calls, Sequence):
            parts += [self._call(call) for call in calls if isinstance(call, Mapping)]
        finish = message.get("finish_reason")
        return {"role": role, "parts": parts} | ({} if finish is None else {"finish_reason": finish})

    def _parts(self, content: Json) -> list[dict[str, object]]:
        if content is None:
            return []
        if isinstance(content, Sequence) and not isinstance(content, str):
            return [self._part(part) for part in content]
        return [self._part(content)]

    def _part(self, part: Json) -> dict[str, object]:
        """A text, or only the type of anything else, such as an image."""
        if not isinstance(part, Mapping):
            return {"type": "text", "content": self._text(part)}
        if isinstance(part.get("text"), str):
            return {"type": "text", "content": self._text(part["text"])}
        return {"type": str(part.get("type", "unknown"))}

    def _call(self, call: JsonObject) -> dict[str, object]:
        named = call.get("function")
        function = named if isinstance(named, Mapping) else call
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return {
            "type": "tool_call",
            "id": call.get("id"),
            "name": function.get("name"),
            "arguments": _parsed(self._text(text)),
        }

    def _all(self, content: Json) -> str:
        return "".join(str(part.get("content", "")) for part in self._parts(content))

    def _text(self, text: object) -> str:
        masked = without_keys(str(text))
        kept = masked if self.redact is None else self.redact(masked)
        if not isinstance(kept, str):
            raise TypeError(f"redact must return a text, not {type(kept).__name__}")
        shown = kept[: self.left]
        self.left -= len(shown)
        return shown if len(shown) == len(kept) else f"{shown}… ({len(kept) - len(shown)} more characters)"


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
