"""The same job under one fault after another on a real cluster: `python -m tests.flink.proof`.

Prints a table, writes it as JSON, and ends every process that it started. Exits with 1 when a row did not
keep what is promised.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.flink.cluster import FlinkCluster, Settings
from tests.flink.run import Run, Shape

__all__ = ["ROWS", "main"]

_COLUMNS = {
    "row": "row",
    "seed": "seed",
    "calls": "requests",
    "answered": "answered",
    "repeats": "repeats",
    "in flight at kill": "in_flight_at_kill",
    "undelivered": "undelivered",
    "in doubt": "in_doubt",
    "lost": "lost",
    "recovered": "recovered",
    "outputs": "outputs",
    "dead letters": "dead_letters",
    "exact": "outputs_exact",
    "seq gapless": "seq_gapless",
    "drift": "drift",
    "late": "late",
    "restarts": "restarts",
    "longest cp ms": "longest_checkpoint_ms",
    "kept": "kept",
}


def undisturbed(run: Run) -> None:
    """Nothing happens."""
    run.submit()


def worker(run: Run) -> None:
    """One Python worker is killed."""
    run.submit()
    _kill_worker(run)


def complete(run: Run) -> None:
    """`complete` instead of `run_agent`; one Python worker is killed."""
    run.submit(further=["--complete"])
    _kill_worker(run)


def task_manager(run: Run) -> None:
    """A TaskManager is killed; its Python workers are orphaned."""
    run.submit()
    run.await_calls(0.4)
    _kill_task_manager(run, with_workers=False)


def task_manager_and_workers(run: Run) -> None:
    """A TaskManager is killed together with its Python workers."""
    run.submit()
    run.await_calls(0.4)
    _kill_task_manager(run, with_workers=True)


def before_first_checkpoint(run: Run) -> None:
    """A TaskManager and its workers are killed before any checkpoint is complete."""
    run.submit(options=["-Dexecution.checkpointing.interval=15s"])
    run.await_calls(0.1)
    _kill_task_manager(run, with_workers=True)


def job_manager(run: Run) -> None:
    """The JobManager is killed; the job goes on from the last retained checkpoint."""
    run.submit()
    run.await_calls(0.4)
    run.await_checkpoints(3)
    killed = run.job
    workers = [pid for index in range(len(run.cluster.task_managers)) for pid in run.cluster.workers(index)]
    run.note_kill(workers, freeze=False)
    run.cluster.kill_job_manager()
    run.cluster.start_job_manager()
    run.cluster.mend()
    run.submit(options=["-s", str(run.cluster.last_checkpoint(killed))])


def rescale(run: Run) -> None:
    """Stopped with a savepoint, started again from it with twice the parallelism and keys given otherwise."""
    run.submit()
    run.await_calls(0.3)
    savepoint = run.cluster.stop_with_savepoint(run.job)
    run.submit(options=["-s", savepoint], parallelism=run.shape.parallelism * 2, keyed_otherwise=True)


def journal_restarted(run: Run) -> None:
    """The journal's server is killed and started again three seconds later."""
    run.submit()
    run.await_calls(0.4)
    run.kill_redis()
    time.sleep(3)
    run.start_redis()


def endpoint_dead(run: Run) -> None:
    """The endpoint cuts every connection for 20 s."""
    run.submit()
    run.await_calls(0.4)
    run.cut_endpoint(20)


ROWS: dict[str, Callable[[Run], None]] = {
    "undisturbed": undisturbed,
    "worker": worker,
    "task-manager": task_manager,
    "task-manager-and-workers": task_manager_and_workers,
    "before-first-checkpoint": before_first_checkpoint,
    "job-manager": job_manager,
    "rescale": rescale,
    "journal-restarted": journal_restarted,
    "endpoint-dead": endpoint_dead,
    "complete": complete,
}


def main(arguments: list[str] | None = None) -> int:
    """Run rows; 0 when all of them kept what is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), help=f"of {', '.join(ROWS)}; all by default")
    parser.add_argument("--times", type=int, default=1, help="how often each row, with other seeds")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="keep the table as it is, and run what it lacks")
    parser.add_argument("--python", type=Path, default=Path(".venv-flink/bin/python"))
    parser.add_argument("--root", type=Path, default=Path(".cache/flink-proof"), help="for logs, states and outputs")
    parser.add_argument("--json", type=Path, default=Path(".cache/flink-proof.json"), help="where the table goes")
    given = parser.parse_args(arguments)
    unknown = set(given.rows) - set(ROWS)
    if unknown:
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}")
    shutil.rmtree(given.root, ignore_errors=True)
    found = json.loads(given.json.read_text()) if given.resume and given.json.exists() else []
    known = {(one["row"], one["seed"]) for one in found}
    seeds = range(given.first_seed, given.first_seed + given.times)
    planned = [(row, seed) for seed in seeds for row in given.rows if (row, seed) not in known]
    settings = Settings(given.python.absolute(), limit_s=120 + 500 * len(planned))
    given.root.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a terminated proof still ends its processes
    os.environ["PROOF_KEY"] = "not-a-secret"  # the TaskManagers hand it on to their workers
    with FlinkCluster(given.root.absolute() / "cluster", settings) as cluster:
        for row, seed in planned:  # one seed after another, so that an interrupted proof has whole ones
            found.append(_try(cluster, given.root.absolute() / f"{row}-{seed}", row, seed))
            print(_line(found[-1]), flush=True)
            given.json.write_text(json.dumps(found, indent=1))
    _print_table(found)
    return 0 if all(one["kept"] for one in found) else 1


def _try(cluster: FlinkCluster, root: Path, row: str, seed: int) -> dict[str, Any]:
    try:
        cluster.mend()
        with Run(cluster, root, f"{row}-{seed}", Shape()) as run:
            ROWS[row](run)
            run.await_end()
            report = {"row": row, **run.report(), "seed": seed}
    except Exception as error:
        traceback.print_exc()
        return {"row": row, "seed": seed, "kept": False, "error": f"{type(error).__name__}: {error}"[:500]}
    report["drift"] = report["request_drift"] + report["token_drift"]
    kept = report["outputs_exact"] and report["seq_gapless"] and report["repeats"] <= report["lost"]
    return {**report, "kept": kept and not (report["drift"] or report["wrong_times"] or report["late"])}


def _kill_worker(run: Run) -> None:
    run.await_calls(0.4)
    index = next(index for index in range(len(run.cluster.task_managers)) if run.cluster.workers(index))
    victims = run.cluster.workers(index)[:1]
    run.note_kill(victims, freeze=True)
    run.cluster.kill_worker(index)


def _kill_task_manager(run: Run, *, with_workers: bool) -> None:
    cluster = run.cluster
    index = next(index for index in range(len(cluster.task_managers)) if cluster.workers(index))
    run.note_kill(cluster.workers(index), freeze=with_workers)
    cluster.kill_task_manager(index, with_workers=with_workers)
    cluster.start_task_manager()


def _line(report: dict[str, Any]) -> str:
    return "  ".join(f"{title}={report.get(name, '-')}" for title, name in _COLUMNS.items())


def _print_table(found: list[dict[str, Any]]) -> None:
    cells = [list(_COLUMNS), *([str(one.get(name, "-")) for name in _COLUMNS.values()] for one in found)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(_COLUMNS))]
    for row in cells:
        print(" | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))
    for one in found:
        if "error" in one:
            print(f"{one['row']} {one['seed']}: {one['error']}")


if __name__ == "__main__":
    sys.exit(main())
