"""`aimock`, an independent mock server with faults and a journal of what it received (npm, runs on Node)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from tests.servers.mock_process import MockProcess

HOW_TO_INSTALL = "make parts (or set AIMOCK to the path of an llmock 1.43.0)"
PARTS = Path(__file__).parents[2] / ".parts" / "node_modules" / ".bin"


class Aimock(MockProcess):
    """Serves `fixtures` in all three vendors' shapes."""

    name = "aimock"
    longest_start_s = 15.0
    parts = PARTS

    def command(self, port: int, fixtures: Path) -> list[str]:
        program = os.environ.get("AIMOCK") or shutil.which(
            "llmock", path=f"{self.parts}{os.pathsep}{os.environ['PATH']}"
        )
        assert program, f"llmock is not on this machine: {HOW_TO_INSTALL}"
        return [program, "--port", str(port), "--fixtures", str(fixtures), "--strict", "--journal-max", "0"]

    def journal(self) -> list[dict[str, Any]]:
        """Every request it received, by its own journal."""
        entries: list[dict[str, Any]] = self.told("/__aimock/journal")
        return entries
