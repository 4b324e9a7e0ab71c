"""The process that serves a GGUF file over HTTP with llama.cpp, for as long as its standard input stays open.

It prints one line of JSON, `{"endpoint": "http://127.0.0.1:PORT"}`, once it listens. llama.cpp writes its log
to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

__all__ = ["main"]

_STOP_WORDS = ["\nQuestion:", "\nAnswer:"]

BASE_MODEL_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'system' %}{{ m['content'] }}\n\n"
    "{% elif m['role'] == 'user' %}Question: {{ m['content'] }}\n"
    "{% else %}Answer: {{ m['content'] }}\n\n{% endif %}"
    "{% endfor %}Answer:"
)
"""Chat template for a base model, which goes on with text and knows no roles."""


def main() -> None:
    """Serve until standard input ends, which it does when the parent process ends, however it ends."""
    options = _options()
    import xllamacpp

    server = xllamacpp.Server(_parameters(xllamacpp, options))
    print(json.dumps({"endpoint": server.listening_address}), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)  # answers under way must not hold the process


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="llama_server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--api-key", default="")
    parser.add_argument("--base-model", action="store_true")
    return parser.parse_args()


def _parameters(xllamacpp: Any, options: argparse.Namespace) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 8192
    params.n_parallel = 4
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.warmup = False
    params.use_jinja = True
    if options.api_key:
        params.api_keys = [options.api_key]
    if options.base_model:
        params.chat_template = BASE_MODEL_TEMPLATE
        params.antiprompt = _STOP_WORDS
    return params


if __name__ == "__main__":
    main()
