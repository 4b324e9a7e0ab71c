"""The commands of the page "Running on Flink", copied and pasted: `python -m tests.flink.page`.

Runs the page's block of commands as it stands, but for the lines that make the venv: it runs in the one that it was
started with. Flink listens at its usual ports, 8081 and 6123. Whatever was started is dead afterwards.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path

from tests.flink.processes import start, wait_until

__all__ = ["main"]

_REPOSITORY = Path(__file__).parents[2]
_LIMIT_S = 420
_TICKETS = 100


def commands() -> str:
    """The block, from where the venv is there."""
    page = (_REPOSITORY / "docs" / "flink.md").read_text()
    found = re.search(r"## Try it on one machine\n.*?```bash\n(.*?)```", page, re.DOTALL)
    assert found is not None, "docs/flink.md has no block of commands any more"
    block = found[1]
    return block[block.index("export PATH=") :]


def sorted_tickets(folder: Path) -> list[dict[str, object]]:
    """The lines of every file of a sink."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def run_in(folder: Path) -> None:
    """Run the commands in `folder`, which looks like the repository. Raises when they fail or leave a process."""
    for name in ("examples", "tests", "src"):
        (folder / name).symlink_to(_REPOSITORY / name)
    (folder / ".venv-flink").symlink_to(sys.prefix)
    script, log = folder / "page.sh", folder / "page.log"
    script.write_text("set -euo pipefail\n" + commands())
    env = {"PYTHONPATH": str(folder / "src"), "FLINK_LOG_DIR": str(folder), "FLINK_PID_DIR": str(folder)}
    home = os.getcwd()
    os.chdir(folder)
    try:
        group = start("the page", ["bash", str(script)], log=log, limit_s=_LIMIT_S, env=env)
    finally:
        os.chdir(home)
    try:
        wait_until(lambda: group.leader.poll() is not None, _LIMIT_S + 10, "the end of the page's commands")
        wait_until(lambda: not group.pids(), 30, "the end of what the page's commands started")
    finally:
        group.stop()
    if group.leader.returncode != 0:
        raise RuntimeError(f"the page's commands failed with {group.leader.returncode}:\n{log.read_text()[-3000:]}")


def main() -> int:
    """Run the commands and count what came out."""
    with tempfile.TemporaryDirectory(prefix="flink-page-") as root:
        folder = Path(root)
        run_in(folder)
        for where in ("local", "cluster"):
            found = sorted_tickets(folder / "out" / where / "sorted")
            tickets = {(one["customer"], one["ticket"]) for one in found}
            assert len(found) == len(tickets) == _TICKETS, f"{len(found)} tickets came out of the {where} run"
            letters = sorted_tickets(folder / "out" / where / "dead-letters")
            assert not letters, letters[:1]
            print(f"{where}: {len(found)} tickets sorted, no dead letter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
