"""The recipes of the page on clusters, run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import supac
from extras import needs
from real_slurm import Slurm

if sys.platform != "linux":
    pytest.skip("SLURM runs on Linux", allow_module_level=True)
needs("dask_jobqueue")
PAGE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text()


def recipe(name: str, language: str) -> str:
    """Return the block of a recipe in one language."""
    found = re.search(
        rf"<!-- recipe: {name} -->\n```{language}\n(.*?)^```", PAGE, flags=re.M | re.S
    )
    assert found is not None
    return found[1]


@pytest.fixture
def study(tmp_path: Path, slurm: Slurm) -> Path:
    """The problem file that every recipe begins with."""
    (lines,) = re.findall(r"```sh\n(supac init .*?)^```", PAGE, flags=re.M | re.S)
    slurm.run("sh", "-ec", lines, cwd=tmp_path)
    shorten(tmp_path / "study")
    return tmp_path / "study"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    folder = tmp_path_factory.mktemp("alone")
    for words in (["init", ".", "-s", "command"], ["run", "problem.toml", "-q"]):
        command = [sys.executable, "-m", "supac", *words]
        subprocess.run(command, cwd=folder, check=True, timeout=120)
        shorten(folder)
    return theta(folder)


def shorten(study: Path) -> None:
    """Give the search a budget of fewer runs: all tests here have three minutes."""
    problem = study / "problem.toml"
    problem.write_text(problem.read_text().replace("budget = 60", "budget = 24"))


def theta(folder: Path) -> np.ndarray:
    record = supac.read_store(folder / "run.supac")
    assert record.stop_reason in (supac.StopReason.BUDGET, supac.StopReason.CONVERGED)
    assert not record.failures
    assert record.posterior is not None
    return record.posterior.theta


def put(study: Path, text: str) -> None:
    """Replace the table [execution] of the problem file."""
    problem = study / "problem.toml"
    problem.write_text(problem.read_text().partition("[execution]")[0] + text)


def test_workers_as_jobs(slurm: Slurm, study: Path, alone: np.ndarray) -> None:
    put(study, recipe("jobs", "toml"))
    said = slurm.run("sh", "-ec", recipe("jobs", "sh"), cwd=study)
    assert "no mistake found" in said
    assert np.array_equal(theta(study), alone)
    assert list((study / "supac-jobs").iterdir())
    slurm.until(lambda: not slurm.jobs())


def test_the_search_as_a_job(slurm: Slurm, study: Path, alone: np.ndarray) -> None:
    put(study, recipe("driver", "toml"))
    said = slurm.run("sh", "-ec", recipe("driver", "sh"), cwd=study)
    job = said.split()[1]
    slurm.until(lambda: job not in slurm.jobs())
    assert np.array_equal(theta(study), alone), (study / "problem-driver.log").read_text()


def test_a_requeue_script_of_three_lines(slurm: Slurm, study: Path, alone: np.ndarray) -> None:
    """Told in the middle that its time is over, it is queued again and goes on."""
    model = study / "model.py"
    model.write_text(model.read_text().replace("import json", "import json\nimport time as t", 1))
    model.write_text(model.read_text().replace("TIMES =", "t.sleep(0.3)\nTIMES =", 1))
    put(study, "[execution]\nworkers = 1\n")
    lines = recipe("requeue", "bash")
    assert len(lines.splitlines()) == 3
    asked = ["--requeue", "--open-mode=append", "--signal=B:USR1@60", "--output=out", "--mem=600"]
    (study / "job.sh").write_text("#!/bin/bash\n" + lines)
    job = slurm.run("sbatch", "--parsable", *asked, "job.sh", cwd=study).strip()
    ledger = study / "run.supac-wal"
    slurm.until(lambda: ledger.exists() and ledger.stat().st_size > 60_000)
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    slurm.until(lambda: job in slurm.jobs("PD"))
    slurm.start_now(job)
    slurm.until(lambda: job not in slurm.jobs())
    assert "SIGUSR1: stopping" in (study / "out").read_text()
    assert np.array_equal(theta(study), alone)


def test_several_tasks_a_run(slurm: Slurm, study: Path, alone: np.ndarray) -> None:
    put(study, recipe("tasks", "toml"))
    model = study / "model.py"
    first = 'import os, sys\nif os.environ["SLURM_PROCID"] != "0":\n    sys.exit()\nimport json'
    model.write_text(model.read_text().replace("import json", first, 1))
    slurm.run("sh", "-ec", recipe("tasks", "sh"), cwd=study)
    assert np.array_equal(theta(study), alone), (study / "out").read_text()
    workers = {span.worker for span in supac.read_store(study / "run.supac").timeline.values()}
    assert workers == {"1", "2"}


def test_mpi(slurm: Slurm, study: Path, alone: np.ndarray) -> None:
    needs_mpi()
    put(study, "")
    (study / "script.py").write_text(recipe("mpi", "py"))
    said = slurm.run("sh", "-ec", recipe("mpi", "sh"), cwd=study)
    assert np.array_equal(theta(study), alone), said


def needs_mpi() -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    if not (Path(sys.executable).parent / "mpiexec").exists():
        pytest.skip("there is no mpiexec beside this Python")
