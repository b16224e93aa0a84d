"""The table [execution] of a problem: the place where its runs are made."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from supac.problem_file.errors import Source
from supac.running.execution import Execution
from supac.running.jobs import BatchSystem

VARIABLE = "SUPAC_DASK"
"""Environment variable with the address of a Dask scheduler, or its file."""
PLACES = ("workers", "dask", "cluster", "job", "run", "driver", "stop")
"""Keys of [execution] that say where runs are made: they may change at any time."""


def execution_of(source: Source, base: Execution) -> Execution:
    """Return an execution with what the file says in [execution]."""
    table = source.table("execution")
    run, job, _ = table.pop("run", {}), table.pop("job", {}), table.pop("driver", {})
    if "workers" in table and "dask" in table:
        raise source.fail(("execution", "dask"), "goes without workers: keep one")
    if "cluster" in table and "dask" in table:
        raise source.fail(("execution", "dask"), "goes without cluster: keep one")
    if job and "cluster" not in table:
        message = 'goes with cluster, such as cluster = "slurm": add it, or remove this table'
        raise source.fail(("execution", "job"), message)
    kind, tasks = table.pop("cluster", None), int(run.get("tasks", 1))
    cluster = base.cluster if kind is None else BatchSystem(kind, job, tasks)
    moved = {"dask", "workers"} & set(table) or kind is not None
    workers = table.pop("dask", table.pop("workers", None if moved else base.workers))
    if workers is None and cluster is None and tasks > 1:
        workers = _allocated(tasks)
    if table.get("mode") == "async" and workers is None and cluster is None:
        message = '"async" needs workers, such as workers = 4, or dask'
        raise source.fail(("execution", "mode"), message)
    return replace(base, workers=_address(workers), cluster=cluster, **table)


def _allocated(tasks: int) -> int | None:
    """Return the number of runs that the tasks of this process's own job suffice for."""
    held = os.environ.get("SLURM_NTASKS", "")
    return max(int(held) // tasks, 1) if held.isdecimal() else None


def launcher(source: Source) -> list[str]:
    """Return the words before the command of a run that has several tasks."""
    run = source.table("execution").get("run", {})
    if "tasks" not in run:
        return []
    return ["srun", "--exact", f"--ntasks={run['tasks']}", *run.get("options", ())]


def on_dask(given: Execution, place: str | None) -> Execution:
    """Return an execution on the Dask cluster of an address or a file; as given if there is none.

    Without a place, the environment may name one.
    """
    place = place or os.environ.get(VARIABLE)
    return given if not place else replace(given, workers=_address(place), cluster=None)


def _address(place: Any) -> Any:
    """Return the address in the file of a scheduler; anything else as it is."""
    if not isinstance(place, str) or not place.endswith(".json"):
        return place
    try:
        return str(json.loads(Path(place).read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{place} is no file of a Dask scheduler ({type(error).__name__}: {error}): it is what "
            "`dask scheduler --scheduler-file` writes"
        ) from error


def without_place(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a problem file without those that say where runs are made."""
    table = settings.get("execution")
    if not isinstance(table, dict):
        return settings
    kept = {name: each for name, each in table.items() if name not in PLACES}
    others = {name: each for name, each in settings.items() if name != "execution"}
    return {**others, "execution": kept} if kept else others
