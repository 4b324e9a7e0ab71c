"""Reading the neutral, chat-completions-shaped messages for wires that want another shape."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_agents.providers.json_body import parse_body

__all__ = ["Image", "arguments_of", "image_of", "joined_text", "parts_of", "split_system", "tool_definitions"]

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_SYSTEM_ROLES = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Image:
    """An image: base64 `data` of `media_type`, or a `url`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


def split_system(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Mapping[str, Any]]]:
    """The contents of system and developer messages, in order, and the other messages."""
    system = [message.get("content") for message in messages if message.get("role") in _SYSTEM_ROLES]
    return system, [message for message in messages if message.get("role") not in _SYSTEM_ROLES]


def parts_of(content: Any) -> Iterator[Mapping[str, Any]]:
    """The parts of a message's content; a string is one text part, `None` is none.

    Raises:
        ValueError: for content that is neither.
    """
    if content is None:
        return
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    if not isinstance(content, (list, tuple)):
        raise ValueError(f"message content is a {type(content).__name__}; it must be a string or a list of parts")
    for part in content:
        if isinstance(part, str):
            yield {"type": "text", "text": part}
        elif isinstance(part, Mapping):
            yield part
        else:
            raise ValueError(f"a content part is a {type(part).__name__}; it must be an object with a type")


def joined_text(content: Any) -> str:
    """The text of a message's content."""
    return "".join(str(part.get("text") or "") for part in parts_of(content))


def image_of(part: Mapping[str, Any]) -> Image:
    """The image of an `image_url` part.

    Raises:
        ValueError: for a data URL that is not base64, or no URL.
    """
    found = part.get("image_url")
    url = found.get("url") if isinstance(found, Mapping) else found
    if not isinstance(url, str):
        raise ValueError("an image_url part must hold image_url.url")
    if not url.startswith("data:"):
        return Image(url=url)
    data = _DATA_URL.fullmatch(url)
    if data is None:
        raise ValueError("an image's data URL must be of the form data:image/png;base64,...")
    try:
        base64.b64decode(data.group(2), validate=True)
    except binascii.Error as error:
        raise ValueError("an image's data URL does not hold valid base64") from error
    return Image(media_type=data.group(1), data=data.group(2))


def arguments_of(call: object) -> tuple[str, Mapping[str, Any]]:
    """Name and arguments of an assistant's tool call.

    Raises:
        ValueError: for a call without a function name, or with arguments that are not a JSON object.
    """
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ValueError("a tool call must hold function.name")
    arguments = function.get("arguments") or "{}"
    if isinstance(arguments, str):
        try:
            arguments = parse_body(arguments.encode("utf-8", "surrogatepass"), exact=True)
        except ValueError as error:
            raise ValueError(f"the arguments of tool call {function['name']!r} are not JSON") from error
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the arguments of tool call {function['name']!r} are not a JSON object")
    return function["name"], arguments


def tool_definitions(tools: Any) -> tuple[list[Mapping[str, Any]], list[Any]]:
    """The functions of chat-completions-shaped tools, and the tools of other shapes, untouched."""
    functions, others = [], []
    for tool in tools or ():
        if isinstance(tool, Mapping) and tool.get("type") == "function" and isinstance(tool.get("function"), Mapping):
            functions.append(tool["function"])
        else:
            others.append(tool)
    return functions, others
