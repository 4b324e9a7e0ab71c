"""A Flink session cluster from the PyFlink wheel: one JobManager and some TaskManagers on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.flink.processes import Group, free_port, start, wait_until

__all__ = ["FlinkCluster", "Settings"]

_JOB_ID = re.compile(r"JobID ([0-9a-f]{32})")
_WORKER = "pyflink.fn_execution.beam.beam_boot"


@dataclass(frozen=True, slots=True)
class Settings:
    """How large the cluster is, how long it may live, and further lines of its configuration."""

    python: Path
    task_managers: int = 2
    slots: int = 2
    limit_s: float = 240
    checkpoint_ms: int = 1000
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """The installed `pyflink` folder, which is a whole distribution."""
        return next(self.python.parent.parent.glob("lib/python3*/site-packages/pyflink"))


class FlinkCluster:
    """Starts on `__enter__`; every process that it started is dead after `__exit__`."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.root = root
        self.settings = settings
        self.rest_port = free_port()
        self._rpc_port = free_port()
        self.job_manager: Group | None = None
        self.task_managers: list[Group] = []
        self._ended: list[Group] = []
        self._deadline = time.monotonic() + settings.limit_s

    def __enter__(self) -> FlinkCluster:
        self._write_configuration()
        try:
            self.start_job_manager()
            self.mend()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exit_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill everything, workers of killed TaskManagers included."""
        groups = [*self.task_managers, *self._ended, *([self.job_manager] if self.job_manager else [])]
        for group in groups:
            group.stop()

    def start_job_manager(self) -> None:
        """Start the JobManager and wait until it serves."""
        self.job_manager = self._start("jobmanager")
        wait_until(lambda: self._alive("/overview"), 60, "the JobManager")

    def start_task_manager(self) -> None:
        """Start one more TaskManager; does not wait for it."""
        self.task_managers.append(self._start("taskmanager"))

    def mend(self) -> None:
        """Have as many TaskManagers as there should be, with all slots free.

        One may still end itself meanwhile: PyFlink's clean-up of a failed job can close a worker twice.
        """
        wait_until(self._is_whole, 90, "every slot to be free")

    def _is_whole(self) -> bool:
        gone = [group for group in self.task_managers if group.leader.poll() is not None]
        self._ended += gone
        self.task_managers = [group for group in self.task_managers if group not in gone]
        while len(self.task_managers) < self.settings.task_managers:
            self.start_task_manager()
        slots = self.settings.task_managers * self.settings.slots
        return self.is_up and self.rest("/overview")["slots-available"] >= slots

    @property
    def is_up(self) -> bool:
        """Whether the JobManager serves."""
        return self._alive("/overview")

    def kill_job_manager(self) -> None:
        """`kill -9` the JobManager."""
        assert self.job_manager is not None
        self.job_manager.stop()
        self.job_manager = None

    def kill_task_manager(self, index: int, *, with_workers: bool) -> None:
        """`kill -9` a TaskManager: alone, so that its Python workers are orphaned, or with them."""
        group = self.task_managers.pop(index)
        if with_workers:
            group.stop()
            return
        self._ended.append(group)
        for pid in group.running("TaskManagerRunner"):
            os.kill(pid, signal.SIGKILL)

    def kill_worker(self, index: int) -> int:
        """`kill -9` one Python worker of a TaskManager; returns its process id."""
        pid = self.workers(index)[0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def workers(self, index: int) -> list[int]:
        """Python worker processes of a TaskManager."""
        return self.task_managers[index].running(_WORKER)

    def submit(self, job: Path, arguments: Sequence[str], *, files: Sequence[Path], options: Sequence[str] = ()) -> str:
        """`flink run -d`; returns the job's id."""
        said = self.flink(
            "run", "-d", *options, "-py", str(job), "-pyfs", ",".join(map(str, files)), *arguments, limit_s=200
        )
        found = _JOB_ID.search(said)
        if found is None:
            raise RuntimeError(f"flink run named no job:\n{said[-3000:]}")
        return found[1]

    def flink(self, *arguments: str, limit_s: float = 60) -> str:
        """Run the `flink` command line against this cluster; returns what it said."""
        done = subprocess.run(
            [str(self.settings.home / "bin/flink"), arguments[0], "-m", f"127.0.0.1:{self.rest_port}", *arguments[1:]],
            env={**os.environ, **self._environment()},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"flink {' '.join(arguments)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
        return done.stdout

    def stop_with_savepoint(self, job: str) -> str:
        """Stop a job; returns where its savepoint is."""
        asked = self.rest(f"/jobs/{job}/stop", body={"targetDirectory": (self.root / "savepoints").as_uri()})
        path = f"/jobs/{job}/savepoints/{asked['request-id']}"
        wait_until(lambda: self.rest(path)["status"]["id"] == "COMPLETED", 60, "the savepoint")
        done = self.rest(path)["operation"]
        if "location" not in done:
            raise RuntimeError(f"there is no savepoint: {str(done)[:2000]}")
        location: str = done["location"]
        return location

    def last_checkpoint(self, job: str) -> Path:
        """The newest retained checkpoint of a job."""
        complete = (self.root / "checkpoints" / job).glob("chk-*/_metadata")
        return max(complete, key=lambda path: int(path.parent.name.removeprefix("chk-"))).parent

    def rest(self, path: str, *, method: str | None = None, body: Mapping[str, Any] | None = None) -> Any:
        """Ask the REST interface: GET, or POST when there is a body."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.rest_port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"{}")

    def job_state(self, job: str) -> str:
        """`RUNNING`, `RESTARTING`, `FINISHED`, …"""
        state: str = self.rest(f"/jobs/{job}")["state"]
        return state

    def checkpoints(self, job: str) -> Any:
        """Counts, summary and latest of the job's checkpoints."""
        return self.rest(f"/jobs/{job}/checkpoints")

    def _alive(self, path: str) -> bool:
        try:
            self.rest(path)
        except OSError:
            return False
        return True

    def _start(self, role: str) -> Group:
        left_s = self._deadline - time.monotonic()
        log = self.root / f"{role}-{len(self.task_managers) + len(self._ended)}.log"
        script = self.settings.home / "bin" / f"{role}.sh"
        return start(role, [str(script), "start-foreground"], log=log, limit_s=left_s, env=self._environment())

    def _environment(self) -> dict[str, str]:
        return {
            "FLINK_HOME": str(self.settings.home),
            "FLINK_CONF_DIR": str(self.root / "conf"),
            "FLINK_LOG_DIR": str(self.root),
            "PATH": f"{self.settings.python.parent}:{os.environ['PATH']}",
        }

    def _write_configuration(self) -> None:
        conf = self.root / "conf"
        conf.mkdir(parents=True)
        source = self.settings.home / "conf"
        for name in ("log4j-console.properties", "log4j-cli.properties"):
            (conf / name).write_text((source / name).read_text())
        shipped = (source / "config.yaml").read_text()
        java = next(line.strip() for line in shipped.splitlines() if line.strip().startswith("all: --add-exports"))
        lines = {
            "env.java.opts.all": f"{java.removeprefix('all: ')} -Djava.io.tmpdir={self.root / 'tmp'}",
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": str(self._rpc_port),
            "jobmanager.bind-host": "127.0.0.1",
            "jobmanager.memory.process.size": "1024m",
            "taskmanager.host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "taskmanager.memory.process.size": "1536m",
            "taskmanager.numberOfTaskSlots": str(self.settings.slots),
            "taskmanager.load-balance.mode": "SLOTS",
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": str(self.rest_port),
            "rest.bind-port": str(self.rest_port),
            "heartbeat.interval": "1s",
            "heartbeat.timeout": "6s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "8",
            "restart-strategy.fixed-delay.delay": "1s",
            "execution.checkpointing.interval": f"{self.settings.checkpoint_ms}ms",
            "execution.checkpointing.dir": (self.root / "checkpoints").as_uri(),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.num-retained": "3",
            "io.tmp.dirs": str(self.root / "tmp"),
            "python.executable": str(self.settings.python),
            "python.client.executable": str(self.settings.python),
            "python.fn-execution.bundle.time": "50",
            **self.settings.extra,
        }
        (self.root / "tmp").mkdir()
        (conf / "config.yaml").write_text("".join(f'"{name}": "{value}"\n' for name, value in lines.items()))
