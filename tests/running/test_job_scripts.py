"""The scripts of jobs, as each batch system is given them; only SLURM can be run in our tests."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from extras import needs
from supac.running.jobs import CLUSTERS, BatchSystem, seconds_of

needs("dask_jobqueue")
JOB = {"queue": "long", "walltime": "02:00:00", "cores": 8, "memory": "16GB"}
NOTED = "export SUPAC_WALLTIME_ENDS=$(( $(date +%s) + 7200 ))"
EXPECTED = {
    "slurm": """#SBATCH -J supac
#SBATCH -e supac-jobs/supac-%J.err
#SBATCH -o supac-jobs/supac-%J.out
#SBATCH -p long
#SBATCH -n 1
#SBATCH --cpus-per-task=8
#SBATCH --mem=15G
#SBATCH -t 02:00:00""",
    "pbs": """#PBS -N supac
#PBS -q long
#PBS -l select=1:ncpus=8:mem=15GB
#PBS -l walltime=02:00:00
#PBS -e supac-jobs/
#PBS -o supac-jobs/""",
    "lsf": """#BSUB -J supac
#BSUB -e supac-jobs/dummy-name-%J.err
#BSUB -o supac-jobs/dummy-name-%J.out
#BSUB -q long
#BSUB -n 8
#BSUB -R "span[hosts=1]"
#BSUB -M 16000000
#BSUB -W 02:00""",
    "sge": """#$ -N supac
#$ -q long
#$ -l h_rt=02:00:00
#$ -e supac-jobs/
#$ -o supac-jobs/
#$ -cwd
#$ -j y""",
    "oar": """#OAR -n supac
#OAR -q long
#OAR -l /nodes=1/core=8,walltime=02:00:00""",
}


def script(kind: str, job: dict[str, Any], tasks: int = 1) -> str:
    return BatchSystem(kind, {"setup": ["module load gcc"], **job}, tasks).script()


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_job_asks_for_what_was_given(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LSF_ENVDIR", "/nonexistent")  # its units of memory are in a file there
    more = {"memory_per_core_property_name": "not_applicable"} if kind == "oar" else {}
    lines = script(kind, {**JOB, **more}).strip().splitlines()
    directives = [line for line in lines[1:] if line.startswith("#")]
    assert directives == EXPECTED[kind].splitlines()
    assert lines[-3:-1] == ["module load gcc", NOTED]
    assert "distributed.cli.dask_worker tcp://" in lines[-1]
    assert "--nthreads 1 --memory-limit 1.86GiB --nworkers 8 --nanny" in lines[-1]


def test_htcondor_is_asked_by_numbers() -> None:
    text = script("htcondor", {"cores": 2, "memory": "4GB", "disk": "1GB"})
    for line in ("MY.DaskWorkerCores = 2", "MY.DaskWorkerMemory = 4000000000"):
        assert line in text.splitlines()
    assert "module load gcc" in text
    assert set(CLUSTERS) == {*EXPECTED, "htcondor"}


def test_a_worker_of_runs_of_several_tasks_makes_one_at_a_time() -> None:
    """Dask would give it a thread, which is a run, for each of its cores."""
    last = script("slurm", JOB, tasks=4).strip().splitlines()[-1]
    assert "--nworkers 2 " in last
    assert last.rpartition("--nthreads ")[2] == "1"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_key_that_a_system_does_not_know_is_named() -> None:
    with pytest.raises(ValueError, match=r"unexpected keyword argument 'account'\. Their keys"):
        script("lsf", {**JOB, "account": "lab"})
    gc.collect()  # the cluster that Dask has half made complains


@pytest.mark.parametrize(
    ("kind", "walltime", "seconds"),
    [
        ("slurm", "12:00:00", 43_200), ("slurm", "1-00:30", 88_200), ("slurm", "30", 1_800),
        ("slurm", "10:30", 630), ("pbs", "90", 90), ("pbs", "10:30", 630), ("lsf", "30", 1_800),
        ("lsf", "2:30", 9_000), ("oar", "2", 7_200), ("oar", "2:30", 9_000), ("sge", "90", 90),
        ("slurm", "UNLIMITED", None),
    ],
)  # fmt: skip
def test_times_are_read_as_each_system_reads_them(
    kind: str, walltime: str, seconds: float | None
) -> None:
    assert seconds_of(walltime, kind) == seconds
