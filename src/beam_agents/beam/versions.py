"""The versions of Beam that the contract tests have passed on."""

from __future__ import annotations

import warnings

import apache_beam

__all__ = ["TESTED_BEAM_MINORS", "is_tested", "needs_official_api"]

TESTED_BEAM_MINORS = ("2.76", "2.77")
"""Minor versions that `tests/beam/test_contract.py` passes on."""


def is_tested(version: str | None = None) -> bool:
    """Whether the running version of Beam, or `version`, is of a minor version on the list."""
    return ".".join((version or apache_beam.__version__).split(".")[:2]) in TESTED_BEAM_MINORS


def needs_official_api(asked: bool | None, version: str | None = None) -> bool:
    """Whether to use Beam's documented interface alone: as asked, else, with a warning, where nothing was tested."""
    version = version or apache_beam.__version__
    if asked is not None or is_tested(version):
        return bool(asked)
    warnings.warn(
        f"beam-agents was not tested with Apache Beam {version} (tested: {', '.join(TESTED_BEAM_MINORS)}) and uses "
        "its documented interface alone, which is slower; when the contract tests pass on this version, "
        "RunAgent(..., official_api=False) is safe",
        stacklevel=3,
    )
    return True
