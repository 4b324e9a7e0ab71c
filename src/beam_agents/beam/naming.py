"""What is settled while a pipeline is built: names of steps, and whether their parts can travel."""

from __future__ import annotations

from typing import Any

from apache_beam.internal import pickler

__all__ = ["full_label", "require_picklable"]


def full_label(pipeline: Any, label: str) -> str:
    """The full label of the transform that is being applied, so that two places that use one label stay apart."""
    current = getattr(pipeline, "_current_transform", None)
    return str(getattr(current(), "full_label", "") or label) if callable(current) else label


def require_picklable(name: str, value: object) -> None:
    """Raises `TypeError` with one sentence when `value` cannot be sent to workers."""
    try:
        pickler.dumps(value)
    except Exception as error:
        raise TypeError(
            f"{name} cannot be sent to workers ({type(error).__name__}: {error}): clients, locks and open files "
            "must be made on the worker; give provider as a factory"
        ) from error
