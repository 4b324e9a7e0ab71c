"""Neutral messages as Gemini's `systemInstruction` and `contents`."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_agents.providers.json_body import parse_body
from beam_agents.providers.messages import arguments_of, image_of, joined_text, parts_of, split_system

__all__ = ["SYNTHETIC_ID", "gemini_contents"]

SYNTHETIC_ID = "gemini-call-"
"""Prefix of the ids that the decoder gives to tool calls without one; they never go back on the wire."""


def gemini_contents(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`systemInstruction` and `contents`; neighbours of one role become one content.

    Raises:
        ValueError: for a message that the wire cannot hold.
    """
    system, turns = split_system(messages)
    contents: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in turns:
        role, parts = _turn(message, names)
        if role == "model" and not parts:
            continue  # an answer without words, such as a blocked one; the wire refuses it
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"].extend(parts)
        else:
            contents.append({"role": role, "parts": parts})
    told = [{"text": text} for text in map(joined_text, system) if text]
    return {"systemInstruction": {"parts": told}, "contents": contents} if told else {"contents": contents}


def _turn(message: Mapping[str, Any], names: dict[str, str]) -> tuple[str, list[dict[str, Any]]]:
    role = message.get("role")
    if role == "user":
        return "user", list(_parts(message.get("content")))
    if role == "assistant":
        calls = [_function_call(call, names) for call in message.get("tool_calls") or ()]
        return "model", [*_parts(message.get("content")), *calls]
    if role == "tool":
        return "user", [_function_response(message, names)]
    raise ValueError(f"message role {role!r} is not one of system, developer, user, assistant, tool")


def _parts(content: Any) -> Iterator[dict[str, Any]]:
    for part in parts_of(content):
        kind = part.get("type")
        if kind == "text":
            if part.get("text"):
                yield {"text": part["text"]}
        elif kind == "image_url":
            yield _image(part)
        else:
            yield {name: value for name, value in part.items() if name != "type"}


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    image = image_of(part)
    if image.url is None:
        return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
    guessed = mimetypes.guess_type(image.url.partition("?")[0])[0]
    return {"fileData": {"fileUri": image.url, **({"mimeType": guessed} if guessed else {})}}


def _own_id(identifier: Any) -> dict[str, Any]:
    real = isinstance(identifier, str) and identifier and not identifier.startswith(SYNTHETIC_ID)
    return {"id": identifier} if real else {}


def _function_call(call: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    name, arguments = arguments_of(call)
    names[str(call.get("id"))] = name
    part: dict[str, Any] = {"functionCall": {**_own_id(call.get("id")), "name": name, "args": arguments}}
    extra = call.get("extra_content")
    google = extra.get("google") if isinstance(extra, Mapping) else None
    if isinstance(google, Mapping) and "thought_signature" in google:
        part["thoughtSignature"] = google["thought_signature"]
    return part


def _function_response(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    call_id = str(message.get("tool_call_id"))
    name = message.get("name") or names.get(call_id)
    if name is None:
        raise ValueError(f"the tool message for call {call_id!r} follows no assistant message with that tool call")
    text = joined_text(message.get("content"))
    try:
        result = parse_body(text.encode("utf-8", "surrogatepass"), exact=True)
    except ValueError:
        result = text
    response = result if isinstance(result, Mapping) else {"result": result}
    return {"functionResponse": {**_own_id(message.get("tool_call_id")), "name": name, "response": response}}
