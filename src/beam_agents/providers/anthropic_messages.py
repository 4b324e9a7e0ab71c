"""Neutral messages as Anthropic's `system` and `messages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_agents.providers.messages import arguments_of, image_of, parts_of, split_system

__all__ = ["anthropic_messages"]


def anthropic_messages(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`system` and `messages`; neighbours of one role become one message, as tool results must.

    Raises:
        ValueError: for a message that the wire cannot hold.
    """
    system, turns = split_system(messages)
    wire: list[dict[str, Any]] = []
    for message in turns:
        role, blocks = _turn(message)
        if role == "assistant" and not blocks:
            continue  # an answer without words, such as a refusal; the wire refuses it
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(blocks)
        else:
            wire.append({"role": role, "content": blocks})
    blocks = [block for content in system for block in _blocks(content)]
    return {"system": blocks, "messages": wire} if blocks else {"messages": wire}


def _turn(message: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    role = message.get("role")
    if role == "user":
        return "user", list(_blocks(message.get("content")))
    if role == "assistant":
        uses = [_tool_use(call) for call in message.get("tool_calls") or ()]
        return "assistant", [*_blocks(message.get("content")), *uses]
    if role == "tool":
        return "user", [_tool_result(message)]
    raise ValueError(f"message role {role!r} is not one of system, developer, user, assistant, tool")


def _blocks(content: Any) -> Iterator[dict[str, Any]]:
    for part in parts_of(content):
        kind = part.get("type")
        if kind == "image_url":
            yield _image(part)
        elif kind == "text" and not part.get("text"):
            continue  # the wire refuses empty text blocks
        else:
            yield dict(part)


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    image = image_of(part)
    if image.url is not None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = arguments_of(call)
    return {"type": "tool_use", "id": call.get("id"), "name": name, "input": arguments}


def _tool_result(message: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": message.get("tool_call_id"),
        "content": list(_blocks(message.get("content"))),
    }
