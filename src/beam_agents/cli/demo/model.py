"""The model that the demo asks: a real one on this machine, or a scripted stand-in that says so."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from rich.console import Console

from beam_agents.cli.demo.triage import ticket_messages
from beam_agents.cli.local.child import ServerChild, ServerStartError
from beam_agents.cli.local.llama import sensible_threads, serve_gguf
from beam_agents.cli.local.scripted_server import SCRIPTED_NAME
from beam_agents.cli.local.weights import MODEL_LICENCE, MODEL_NAME, ModelNotInstalled, weights_path
from beam_agents.cli.wording import counted

__all__ = ["DemoModel", "start_model"]


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model that listens. `scripted` says that it is no model at all."""

    name: str
    server: ServerChild
    scripted: bool

    def first_answer_ms(self) -> float:
        """How long one answer takes right now, once the model has read the examples. Not through the proxy."""
        ticket = {"model": self.name, "messages": ticket_messages("Hello?"), "temperature": 0, "max_tokens": 16}
        body = json.dumps(ticket).encode()
        request = Request(f"{self.server.endpoint}/v1/chat/completions", body, {"Content-Type": "application/json"})
        for _ in range(2):
            started = time.monotonic()  # noqa: TID251 - a real server is timed
            with urlopen(request, timeout=120) as answer:
                answer.read()
            took_ms = (time.monotonic() - started) * 1000  # noqa: TID251
        return took_ms


def start_model(console: Console, folder: Path, *, scripted: bool = False) -> DemoModel:
    """Start the local model, or the stand-in when it cannot be had or `scripted` asks for it; say which."""
    if not scripted:
        try:
            return _real(console, folder)
        except (ModelNotInstalled, ServerStartError, OSError, ValueError) as error:
            console.print(f"[yellow]The local model cannot be had:[/] {error}")
    server = ServerChild("beam_agents.cli.local.scripted_server", [], log=folder / "stand-in.log")
    console.print(
        "[yellow]A scripted stand-in answers instead: it sorts by words, it is no model.[/] Everything else is real: "
        "HTTP, Beam, faults, kill, journal. Its token counts are estimates."
    )
    return DemoModel(SCRIPTED_NAME, server, True)


def _real(console: Console, folder: Path) -> DemoModel:
    threads = sensible_threads()
    with console.status("Putting the model's weights together and checking their sha256 ..."):
        weights = weights_path()
    with console.status("Starting llama.cpp's server ..."):
        server = serve_gguf(weights, alias=MODEL_NAME, log=folder / "llama.log", threads=threads, base_model=True)
    console.print(
        f"Model: [bold]{MODEL_NAME}[/], 270 million parameters, served by llama.cpp on this machine with "
        f"{counted(threads, 'thread')}. Its weights are under the {MODEL_LICENCE}"
    )
    return DemoModel(MODEL_NAME, server, False)
