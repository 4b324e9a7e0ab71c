"""Entity keys on the command line."""

from __future__ import annotations

__all__ = ["key_of_text"]


def key_of_text(text: str) -> bytes:
    """The key that is shown as `text`: its UTF-8, or the bytes of `0x…` where these are no UTF-8."""
    if text.startswith("0x"):
        try:
            read = bytes.fromhex(text[2:])
        except ValueError:
            return text.encode("utf-8")
        if _is_no_text(read):
            return read
    return text.encode("utf-8")


def _is_no_text(key: bytes) -> bool:
    try:
        key.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False
