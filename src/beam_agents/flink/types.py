"""Flink's names for the types that travel and are kept."""

from __future__ import annotations

from pyflink.common import TypeInformation, Types

__all__ = ["BYTES", "timed"]


def BYTES() -> TypeInformation:  # noqa: N802 - named like PyFlink's own
    """Raw bytes."""
    return Types.PRIMITIVE_ARRAY(Types.BYTE())


def timed(value: TypeInformation) -> TypeInformation:
    """A value behind its event time in milliseconds."""
    return Types.ROW([Types.LONG(), value])
