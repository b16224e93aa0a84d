"""What users of a batch system do, and what it does to them, on a real SLURM."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import supac
from extras import needs
from real_slurm import ENDED, NODES, Slurm
from supac.problem_file import starter_files

if sys.platform != "linux":
    pytest.skip("SLURM runs on Linux", allow_module_level=True)
needs("dask_jobqueue")

PACE = """
import os, time as clock
_begun = clock.time()
"""
TIMED = """
with open("{ledger}", "a") as _file:
    _file.write(f"{{_begun}} {{clock.time()}}\\n")
"""


class Study:
    """A problem file whose simulator takes a while, in a folder of its own."""

    def __init__(self, folder: Path, seconds: float = 0.25, budget: int = 24):
        self.folder, self.ledger = folder, folder / "ledger"
        for name, text in starter_files("command").items():
            (folder / name).write_text(text)
        model = folder / "model.py"
        self.body = model.read_text()
        self.problem = (folder / "problem.toml").read_text()
        self.problem = self.problem.partition("[execution]")[0]
        self.problem = self.problem.replace("budget = 60", f"budget = {budget}")
        self.pace(f"clock.sleep({seconds})")

    def pace(self, lines: str) -> None:
        """Put lines before the model: what it does besides."""
        end = TIMED.format(ledger=self.ledger)
        docstring, _, rest = self.body.partition("\nimport")
        self.model = f"{docstring}\n{PACE}{lines}\nimport{rest}{end}"
        (self.folder / "model.py").write_text(self.model)

    def execution(self, text: str, name: str = "problem.toml") -> Path:
        """Write the problem file with this table [execution]."""
        path = self.folder / name
        path.write_text(self.problem + "\n[execution]\n" + text)
        return path

    def record(self, store: str = "run.supac") -> supac.Record:
        return supac.read_store(self.folder / store)

    def most_at_once(self) -> int:
        times = [tuple(map(float, each.split())) for each in self.ledger.read_text().splitlines()]
        steps = sorted([(begin, 1) for begin, _ in times] + [(end, -1) for _, end in times])
        return int(np.cumsum([step for _, step in steps]).max())

    def count(self) -> int:
        return len(self.ledger.read_text().splitlines()) if self.ledger.exists() else 0


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """Posterior of the search in one process."""
    study = Study(tmp_path_factory.mktemp("alone"), seconds=0.0)
    study.execution("")
    command = [sys.executable, "-m", "supac", "run", "problem.toml", "-q"]
    subprocess.run(command, cwd=study.folder, check=True, timeout=120)
    return theta(study)


def theta(study: Study) -> np.ndarray:
    record = study.record()
    assert record.stop_reason is supac.StopReason.BUDGET
    assert not record.failures
    assert record.posterior is not None
    return record.posterior.theta


JOBS = """
cluster = "slurm"
workers = {workers}
timeout = 60
{more}
[execution.job]
queue = "compute"
walltime = "00:05:00"
cores = 1
memory = "{memory}"
"""


def jobs(workers: int, memory: str = "300MB", more: str = "") -> str:
    return JOBS.format(workers=workers, memory=memory, more=more)


def finish(process: subprocess.Popen[bytes], study: Study, code: int = 0) -> str:
    process.wait(120)
    said = (study.folder / "log").read_text()
    assert process.returncode == code, said
    return said


def test_workers_that_are_cancelled_and_preempted_change_no_bit(
    slurm: Slurm, study: Study, alone: np.ndarray
) -> None:
    """One is cancelled, one is preempted, and all are cancelled at once."""
    study.execution(jobs(4))
    process = slurm.start("supac", "run", "problem.toml", cwd=study.folder)
    slurm.until(lambda: study.count() >= 3)
    slurm.run("scancel", slurm.jobs("R")[0])
    slurm.run("sbatch", "-p", "urgent", f"-N{NODES}", "--exclusive", "-o", "/dev/null",
              "--wrap", "sleep 1", cwd=study.folder)  # fmt: skip
    slurm.until(lambda: study.count() >= 8)
    slurm.run("scancel", *slurm.jobs())
    finish(process, study)
    assert np.array_equal(theta(study), alone)
    assert any("its worker was lost" in each.reason for each in study.record().losses)
    slurm.until(lambda: not slurm.jobs())


def test_late_workers_are_used(slurm: Slurm, study: Study) -> None:
    """Begun with one worker; seven more come when the queue lets them."""
    study.pace("clock.sleep(1.5)")  # others have time to come
    study.problem = study.problem.replace("[run]", "[run]\nfirst = 16\nbatch = 8\nvalidation = 0")
    study.execution(jobs(8))
    hog = slurm.run("sbatch", "--parsable", "-N7", "-o", "/dev/null", "--wrap", "sleep 60").strip()
    slurm.until(lambda: hog in slurm.jobs("R"))
    process = slurm.start("supac", "run", "problem.toml", cwd=study.folder)
    slurm.until(lambda: study.count() >= 2)
    assert study.most_at_once() == 1
    slurm.run("scancel", hog)
    finish(process, study)
    assert study.most_at_once() >= 7


@pytest.fixture(scope="module", autouse=True)
def driver(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Study]:
    """A search of 41 s in a job of one minute that is told 55 s before its end: others meanwhile.

    SLURM looks at the time of jobs every 30 s, so that it is told within 35 s.
    """
    study = Study(tmp_path_factory.mktemp("driver"), seconds=1.7)
    study.execution(
        'workers = 1\ntimeout = 60\n[execution.driver]\nqueue = "drivers"\nmemory = "600MB"\n'
        'walltime = "00:01:00"\ndirectives = ["--signal=B:USR1@55"]\n'
    )
    said = slurm.run("supac", "run", "problem.toml", "--submit", cwd=study.folder)
    return said.split()[1], study


@pytest.fixture(scope="module", autouse=True)
def overtaken(
    slurm: Slurm, driver: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[subprocess.Popen[bytes], Study]]:
    """A search whose first run is still going on when the time of its worker's job is over."""
    study = Study(tmp_path_factory.mktemp("overtaken"))
    study.pace(f"""_once = "{study.folder}/once"
if not os.path.exists(_once):
    open(_once, "w").close()
    clock.sleep(900)""")
    study.execution(
        'cluster = "slurm"\nworkers = 1\n[execution.job]\nqueue = "drivers"\n'
        'walltime = "00:01:00"\ncores = 1\nmemory = "300MB"\n'
    )
    process = slurm.start("supac", "run", "problem.toml", cwd=study.folder)
    yield process, study
    process.kill()
    process.wait()


def test_a_run_of_two_tasks_that_takes_too_long_leaves_no_step(slurm: Slurm, study: Study) -> None:
    study.pace('if os.environ["SLURM_PROCID"] == "0" and os.path.exists("../hang"):\n'
               "    clock.sleep(300)")  # fmt: skip
    study.problem = study.problem.replace("budget = 24", "budget = 1\nfirst = 1\nvalidation = 0")
    study.problem = study.problem.replace("[simulator]", '[simulator]\nscratch = "scratch"')
    (study.folder / "scratch").mkdir()
    (study.folder / "scratch" / "hang").touch()
    body = study.model.replace("json.dump(", 'if os.environ["SLURM_PROCID"] == "0": json.dump(')
    (study.folder / "model.py").write_text(body)
    study.execution("timeout = 2\nmax_failures = 1.0\n[execution.run]\ntasks = 2\n")
    command = (
        "supac run problem.toml; squeue -h -s -o %i -j $SLURM_JOB_ID; echo; pgrep -f mod[e]l.py"
    )
    asked = ["--parsable", "-N2", "-n2", "-o", "out", "--wrap", command]
    job = slurm.run("sbatch", *asked, cwd=study.folder).strip()
    slurm.until(lambda: slurm.fact(job, "JobState") in ENDED)
    said = (study.folder / "out").read_text()
    record = study.record()
    assert [run.status for run in record.made] == [supac.Status.TIMED_OUT], said
    steps = said.splitlines()[-5:]
    assert not any(".0" in each or ".1" in each or ".2" in each for each in steps), said
    assert not subprocess.run(["pgrep", "-f", f"{study.folder}/model.py"], check=False,
                              capture_output=True).stdout  # fmt: skip


def test_runs_out_of_memory_are_lost_and_the_good_region_is_found(
    slurm: Slurm, study: Study, alone: np.ndarray
) -> None:
    if not slurm.limits_memory:
        pytest.skip("this SLURM cannot limit memory: there are no control groups")
    hungry = (
        'import json\nif json.load(open("input.json"))["k1"] > 0.6:\n'
        "    eaten = bytearray(600_000_000); eaten[::4096] = b'x' * len(eaten[::4096])"
    )
    study.pace(hungry)
    study.execution(jobs(2, memory="400MB", more="retries = 1"))
    process = slurm.start("supac", "run", "problem.toml", cwd=study.folder)
    said = finish(process, study, code=1)
    assert "lost 2 times" in said
    assert "out of memory" in said
    assert "more memory" in said
    assert not study.record().failures
    study.execution(jobs(2, memory="1500MB", more="retries = 1"))
    process = slurm.start("supac", "resume", "run.supac", cwd=study.folder)
    finish(process, study)
    assert np.array_equal(theta(study), alone)
    assert study.record().estimate.mean_risk < 0.1


def test_a_run_longer_than_the_walltime_is_refused_or_lost_and_never_penalised(
    slurm: Slurm, study: Study
) -> None:
    """Quick runs are made; those that need more than a whole job are not even begun."""
    (study.folder / "slow").touch()
    study.pace("clock.sleep(0.2)")
    study.execution(jobs(2, more="retries = 0").replace("00:05:00", "00:01:00"))
    script = """
import supac
from supac.problem_file import read_problem
from supac.running.losses import Losses
Losses.usual = lambda self, level=0: 90.0  # as after runs of a minute and a half
try:
    read_problem("problem.toml").minimize()
except supac.ExecutionError as error:
    print(error)
"""
    said = slurm.run(sys.executable, "-c", script, cwd=study.folder)
    assert "was lost once" in said
    assert "raise the walltime" in said
    assert study.count() == 0
    assert not study.record().failures
    assert study.record().stop_reason is None


def test_sigterm_then_continue(slurm: Slurm, study: Study, alone: np.ndarray) -> None:
    """Two workers by jobs; the driver is told to stop, and goes on where it was."""
    study.execution(jobs(2))
    process = slurm.start("supac", "run", "problem.toml", "--continue", cwd=study.folder)
    slurm.until(lambda: study.count() >= 12)
    process.send_signal(signal.SIGTERM)
    said = finish(process, study, code=3)
    assert "SIGTERM: stopping when the runs in progress have ended" in said
    assert "to continue: supac resume run.supac" in said
    study.execution("workers = 2\n")  # elsewhere: no change of the problem
    process = slurm.start("supac", "run", "problem.toml", "--continue", cwd=study.folder)
    finish(process, study)
    assert np.array_equal(theta(study), alone)
    assert study.count() == 24


def test_a_job_that_slurm_refuses_is_told_at_once(slurm: Slurm, study: Study) -> None:
    path = study.execution(jobs(4).replace("compute", "nowhere"))
    said = slurm.run("supac", "cluster", path, "--check", cwd=study.folder, check=False)
    assert "#SBATCH -p nowhere" in said
    assert "sbatch refuses the job" in said
    assert study.count() == 0


def test_a_cluster_from_python(slurm: Slurm, study: Study, alone: np.ndarray) -> None:
    study.execution("")
    script = """
import supac
from supac.problem_file import read_problem
jobs = supac.Slurm(queue="compute", cores=1, memory="300MB", walltime="00:05:00")
where = supac.Execution(2, cluster=jobs, on_failure="penalise")
read_problem("problem.toml").minimize(execution=where)
"""
    slurm.run(sys.executable, "-c", script, cwd=study.folder)
    assert np.array_equal(theta(study), alone)


def test_a_driver_whose_time_is_over_goes_on_by_itself(
    slurm: Slurm, driver: tuple[str, Study], alone: np.ndarray
) -> None:
    """Told by SIGUSR1 before its walltime, it stops in good order, and is queued again."""
    job, study = driver
    slurm.goes_on_to_its_end(job)
    log = (study.folder / "problem-driver.log").read_text()
    assert "SIGUSR1: stop" in log
    assert np.array_equal(theta(study), alone), log
    assert study.count() == 24
    assert int(slurm.fact(job, "Restarts")) >= 1


def test_a_run_that_its_walltime_kills_is_lost_and_made_again(
    overtaken: tuple[subprocess.Popen[bytes], Study], alone: np.ndarray
) -> None:
    process, study = overtaken
    process.wait(600)
    assert process.returncode == 0, (study.folder / "log").read_text()
    assert np.array_equal(theta(study), alone)
    assert study.record().losses
    assert study.count() == 24


def test_two_runs_of_two_tasks_in_each_job(slurm: Slurm, study: Study, alone: np.ndarray) -> None:
    """Jobs of four tasks make two runs at a time, each by a step of `srun`."""
    study.pace('if os.environ["SLURM_PROCID"] != "0":\n    raise SystemExit\nclock.sleep(0.5)')
    job = jobs(2).replace("cores = 1", "cores = 4").replace("300MB", "1200MB")
    options = '[execution.run]\ntasks = 2\noptions = ["--mpi=none"]\n'
    study.execution(f'{job}job_extra_directives = ["--nodes=4"]\n{options}')
    process = slurm.start("supac", "run", "problem.toml", cwd=study.folder)
    finish(process, study)
    assert np.array_equal(theta(study), alone)
    assert study.most_at_once() == 2


def test_a_driver_that_is_cancelled_stays_away(slurm: Slurm, study: Study) -> None:
    study.execution('workers = 1\n[execution.driver]\nqueue = "urgent"\nmemory = "600MB"\n')
    job = slurm.run("supac", "run", "problem.toml", "--submit", cwd=study.folder).split()[1]
    slurm.until(lambda: study.count() >= 2)
    slurm.run("scancel", job)
    slurm.goes_on_to_its_end(job)
    assert slurm.fact(job, "JobState") == "CANCELLED"
    assert slurm.fact(job, "Restarts") == "0"
    assert study.record().stop_reason in (None, supac.StopReason.INTERRUPTED)
