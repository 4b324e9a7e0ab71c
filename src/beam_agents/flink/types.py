"""Flink's names for the types that travel and are kept."""

from __future__ import annotations

from pyflink.common import TypeInformation, Types

__all__ = ["BYTES"]


def BYTES() -> TypeInformation:  # noqa: N802 - named like PyFlink's own
    """Raw bytes."""
    return Types.PRIMITIVE_ARRAY(Types.BYTE())
