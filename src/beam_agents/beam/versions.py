"""The versions of Beam that the contract tests have passed on."""

from __future__ import annotations

import warnings

import apache_beam

__all__ = ["TESTED_BEAM_MINORS", "is_tested", "warn_unless_tested"]

TESTED_BEAM_MINORS = ("2.77",)
"""Minor versions that `tests/beam/test_contract.py` passes on."""


def is_tested(version: str | None = None) -> bool:
    """Whether the running version of Beam, or `version`, is of a minor version on the list."""
    return ".".join((version or apache_beam.__version__).split(".")[:2]) in TESTED_BEAM_MINORS


def warn_unless_tested() -> None:
    """Warn when this version of Beam is not on the list: the transform stands on details of its worker."""
    if not is_tested():
        warnings.warn(
            f"beam-agents was not tested with Apache Beam {apache_beam.__version__} "
            f"(tested: {', '.join(TESTED_BEAM_MINORS)}); run its contract tests before you rely on it",
            stacklevel=2,
        )
