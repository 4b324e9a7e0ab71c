"""llama.cpp's own server on a model file, in a child process on a free loopback port."""

from __future__ import annotations

import os
from pathlib import Path

from beam_agents.cli.local.child import ServerChild

__all__ = ["sensible_threads", "serve_gguf"]


def serve_gguf(
    model: Path, *, alias: str, log: Path, threads: int | None = None, api_key: str = "", base_model: bool = False
) -> ServerChild:
    """Serve `model` under the name `alias`; use it as a context manager.

    Args:
        model: a GGUF file.
        alias: the model's name on the wire.
        log: file that takes llama.cpp's log.
        threads: processor threads; `None` takes as many as are free now.
        api_key: key that requests must carry; empty for none.
        base_model: use the Question/Answer template for models that know no roles.

    Raises:
        ServerStartError: when it does not start; the message holds the end of the log.
    """
    args = ["--model", str(model), "--alias", alias, "--threads", str(threads or sensible_threads())]
    if api_key:
        args += ["--api-key", api_key]
    if base_model:
        args.append("--base-model")
    return ServerChild("beam_agents.cli.local.llama_server", args, log=log)


def sensible_threads() -> int:
    """Threads that find a free core now: spinning threads on busy cores make everything much slower."""
    cores = os.cpu_count() or 1
    return max(1, min(4, cores - round(os.getloadavg()[0])))
