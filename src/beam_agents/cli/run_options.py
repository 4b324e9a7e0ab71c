"""What `beam-agents run` was asked, and the identity that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from beam_agents.cli.events import Format
from beam_agents.ports import DivergencePolicy, InDoubtPolicy

__all__ = ["NO_JOURNAL", "RunOptions"]

NO_JOURNAL = "none"
"""Value of `--journal` that turns the journal off."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The arguments of one run, as they were given."""

    agent: str
    model: str
    input: str | None = None
    retry_errors: str | None = None
    key: str | None = None
    format: Format | None = None
    output: Path = Path("out.jsonl")
    traces: Path | None = None
    errors: Path | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    structured_output: Literal["native", "prompt"] = "native"
    journal: str | None = None
    namespace: str | None = None
    fresh: bool = False
    max_in_flight: int = 64
    timeout_s: float = 300.0
    max_attempts: int = 6
    on_in_doubt: InDoubtPolicy = "repay"
    on_divergence: DivergencePolicy = "warn"
    max_errors: int = 0
    prices: str | None = None
    otlp: str | None = None
    record_content: bool = False
    redact: str | None = None
    quiet: bool = False
    as_json: bool = False
    beam_arguments: tuple[str, ...] = ()

    @property
    def journal_uri(self) -> str | None:
        """The journal: the given one, or `journal.db` beside the output, or `None` when turned off."""
        if self.journal == NO_JOURNAL:
            return None
        return self.journal or f"sqlite:///{self.output.parent.resolve() / 'journal.db'}"

    def namespace_at(self, now: str, of_letters: str | None = None) -> str:
        """What scopes positions and journal records: agent, input's name and model, unless given.

        Running again under the same namespace resumes. `--fresh` adds the time `now` and so starts anew.
        `of_letters` is the namespace of the dead letters that are run again.
        """
        agent = f"{Path(self.agent.rpartition(':')[0]).name}:{self.agent.rpartition(':')[2]}"
        base = self.namespace or of_letters or f"{agent} {Path(self.input or '-').name} {self.model}"
        return f"{base} fresh {now}" if self.fresh else base
