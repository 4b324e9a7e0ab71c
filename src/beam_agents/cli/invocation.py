"""What the whole command line was, beside a command's own options."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Invocation"]


@dataclass(frozen=True, slots=True)
class Invocation:
    """`beam_arguments` is everything after `--`."""

    beam_arguments: tuple[str, ...] = ()
