"""`stubllm`, a mock server of other people's making."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.servers.mock_process import MockProcess


class StubLlm(MockProcess):
    """Serves `fixtures` in all three vendors' shapes."""

    name = "stubllm"

    def command(self, port: int, fixtures: Path) -> list[str]:
        arguments = ["serve", "--host", "127.0.0.1", "--port", str(port), "--fixture-dir", str(fixtures.parent)]
        return [sys.executable, "-c", "from stubllm.cli import cli; cli()", *arguments]

    def counted(self) -> dict[str, int]:
        """How often each fixture was served, by the server's own count."""
        counts: dict[str, int] = self.told("/_stats")["fixture_call_counts"]
        return counts
