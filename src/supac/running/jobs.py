"""Workers as jobs of a batch system, which dask-jobqueue submits, watches and replaces."""

from __future__ import annotations

import math
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from supac.running.child import Job
from supac.running.dask_cluster import open_dask_pool
from supac.running.futures import FuturesPool

CLUSTERS = {
    "slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster",
    "oar": "OARCluster", "htcondor": "HTCondorCluster",
}  # fmt: skip
"""Batch systems, and their classes in dask-jobqueue."""
_TESTS = {"slurm": ("sbatch", "--test-only"), "sge": ("qsub", "-w", "v")}
"""Commands that ask a batch system whether it would take a job script, where there is one."""
_ANSWERS = 60.0  # seconds
_UNITS = (3600.0, 60.0, 1.0)
_FIRST_UNIT = {
    "slurm": (1, 1), "pbs": (2, 1), "lsf": (1, 0), "sge": (2, 1), "oar": (0, 0), "htcondor": (1, 1),
}  # fmt: skip
"""Unit of the first number of a time that is one number, and of one that is two."""


@dataclass(frozen=True)
class BatchSystem:
    """Jobs of a batch system, in which runs are made; `BatchSystem("pbs", {"queue": "long"})`.

    Parameters
    ----------
    kind
        "slurm", "pbs", "lsf", "sge", "oar" or "htcondor".
    job
        Arguments of the class of dask-jobqueue: queue, account, walltime, cores, memory and so on;
        what is missing comes from its configuration file. `setup` are lines of the shell that a job
        begins with. There is a worker for each core, or for each `tasks` cores.
    tasks
        Number of tasks of a run, which the simulator starts by `srun` or `mpirun`.

    """

    kind: str
    job: Mapping[str, Any] = field(default_factory=dict)
    tasks: int = 1

    def __post_init__(self) -> None:
        if self.kind not in CLUSTERS:
            raise ValueError(f"cluster must be one of {', '.join(CLUSTERS)}, not {self.kind!r}")

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the class of dask-jobqueue."""
        given = dict(self.job)
        prologue = [*given.pop("setup", ()), *given.pop("job_script_prologue", ())]
        walltime = given.get("walltime") or self._configured("walltime")
        seconds = None if walltime is None else seconds_of(str(walltime), self.kind)
        if seconds is not None and self.kind == "lsf":  # which knows no seconds
            hours, minutes = divmod(math.ceil(seconds / 60), 60)
            given["walltime"] = f"{hours:02}:{minutes:02}"
        if seconds is not None:  # no run begins that cannot end before
            prologue.append(f"export SUPAC_WALLTIME_ENDS=$(( $(date +%s) + {seconds:.0f} ))")
        cores = int(given.get("cores") or self._configured("cores") or 1)
        given.setdefault("processes", max(cores // self.tasks, 1))
        given.setdefault("log_directory", self._configured("log-directory") or "supac-jobs")
        given.setdefault("job_name", "supac")
        given.setdefault("silence_logs", "critical")  # deaths of workers are told by the search
        given.setdefault("scheduler_options", {"dashboard_address": "127.0.0.1:0"})
        if self.tasks > 1:  # a worker makes one run at a time, however many cores that has
            given["worker_extra_args"] = [*given.get("worker_extra_args", ()), "--nthreads", "1"]
        if self.tasks > 1 and self.kind == "slurm":
            skipped = list(given.get("job_directives_skip", ()))
            given["job_directives_skip"] = [*skipped, "#SBATCH -n 1", "--cpus-per-task"]
            extra = list(given.get("job_extra_directives", ()))
            given["job_extra_directives"] = [*extra, f"--ntasks={cores}"]
        return {**given, "job_script_prologue": prologue}

    def _configured(self, name: str) -> Any:
        """Return a setting of dask-jobqueue's own configuration file."""
        import dask  # noqa: PLC0415

        _classes()
        return dask.config.get(f"jobqueue.{self.kind}.{name}", None)

    def start(self, workers: int | None) -> Any:
        """Start a cluster that keeps up so many workers, or one job of them."""
        cluster, processes = self._cluster(), self.options["processes"]
        jobs = math.ceil((workers or processes) / processes)
        cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)  # which replaces those that go
        return cluster

    def script(self) -> str:
        """Return the script of one job."""
        with self._cluster() as cluster:
            return str(cluster.job_script())

    def _cluster(self) -> Any:
        """Return a cluster without jobs."""
        import dask  # noqa: PLC0415

        made_by = getattr(_classes(), CLUSTERS[self.kind])
        # A run that dies with its worker is reported at once: it is counted, and made again.
        with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
            try:
                return made_by(**self.options)
            except (ValueError, TypeError) as error:
                why = str(error).partition(". Very likely")[0]  # all arguments follow
                raise ValueError(
                    f'the jobs of cluster = "{self.kind}" cannot be described: {why}. Their keys '
                    "are those of dask-jobqueue, and belong in [execution.job]"
                ) from error

    def ask(self, script: str) -> str:
        """Ask the batch system whether it would take a script; ValueError if it would not.

        Return what it says; "" for systems that cannot be asked.
        """
        command = _TESTS.get(self.kind)
        if command is None:
            return ""
        if shutil.which(command[0]) is None:
            raise ValueError(
                f"there is no {command[0]} here: run this on a machine that submits jobs"
            )
        done = subprocess.run(
            [*command, script], capture_output=True, text=True, timeout=_ANSWERS, check=False
        )
        said = (done.stderr + done.stdout).strip()
        if done.returncode:
            raise ValueError(f"{command[0]} refuses the job: {said}")
        return said


class Slurm(BatchSystem):
    """Jobs of SLURM: `Slurm(queue="compute", walltime="12:00:00", cores=8, memory="16GB")`."""

    def __init__(self, *, tasks: int = 1, **job: Any):
        super().__init__("slurm", job, tasks)


def open_jobs_pool(system: BatchSystem, workers: int | None, job: Job) -> FuturesPool:
    """Open a pool on the jobs of a batch system, which end with it."""
    from distributed import Client  # noqa: PLC0415

    cluster = system.start(workers)
    try:
        client = Client(cluster, set_as_default=False)  # type: ignore[no-untyped-call]
    except BaseException:
        cluster.close()
        raise

    def close() -> None:
        client.close()  # type: ignore[no-untyped-call]
        cluster.close()

    return open_dask_pool(client, job, close)


def seconds_of(walltime: str, kind: str = "slurm") -> float | None:
    """Return the seconds of a time such as "12:00:00", "1-00:00:00" or "30"; None for another.

    What "30" and "12:00" mean is decided by the batch system.
    """
    found = re.fullmatch(r"(?:(\d+)-)?(\d+(?::\d+){0,2})", walltime.strip())
    if found is None:
        return None
    days, parts = float(found[1] or 0.0), found[2].split(":")
    first = 0 if found[1] or len(parts) == 3 else _FIRST_UNIT[kind][len(parts) - 1]
    seconds = sum(float(part) * unit for part, unit in zip(parts, _UNITS[first:], strict=False))
    return 86_400.0 * days + seconds


def _classes() -> Any:
    hears = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "a cluster of a batch system needs dask-jobqueue: pip install 'supac[cluster]'"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, hears)  # its import makes Ctrl-C end the process
    return dask_jobqueue
