"""Text of strangers on a terminal."""

from __future__ import annotations

from rich.text import Text

__all__ = ["plain"]


def plain(text: str, style: str = "") -> Text:
    """`text` as it reads: no markup, and no control character that the terminal would obey."""
    return Text(
        "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text), style
    )
