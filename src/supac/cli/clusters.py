"""The command `supac cluster`, and the job of `supac run --submit`."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from supac.cli.app import command, console, failed, inform, user_code
from supac.cli.check import check_run
from supac.cli.options import ProblemPath
from supac.problem_file import ProblemFile, read_problem
from supac.problem_file.errors import Source
from supac.report.tables import short
from supac.running.jobs import BatchSystem, seconds_of

_NOTICE = 60  # seconds before the end of a job in which the search may stop by itself
_DRIVER = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={log}
#SBATCH --signal=B:USR1@{notice}
{directives}
{setup}
# Told before the time of the job ends, or at its preemption, the search stops with code 3, or by
# the signal if it has not begun to listen; then its job is queued again, unless it was cancelled.
# A process that begins just now may lose a signal: hence the second.
trap 'told=1; sleep 1; kill -USR1 $! 2>/dev/null' USR1 TERM
{setup}
{command} &
[ "$told" ] && sleep 1 && kill -USR1 $!
while kill -0 $! 2>/dev/null; do wait $!; done  # a signal ends the waiting, not the search
wait $!; code=$?
case $code in 3|130|138|143) ;; *) exit $code ;; esac
case $(squeue -h -j $SLURM_JOB_ID -o "%T %r") in CANCELLED*|"COMPLETING None") exit $code ;; esac
scontrol requeue $SLURM_JOB_ID
exit $code
"""


@command("Examples: `supac cluster problem.toml`, `supac cluster problem.toml --check`.")
def cluster(
    problem: ProblemPath,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Ask the batch system whether it takes the job, and make one run on one worker.",
        ),
    ] = False,
) -> None:
    """Show the job script of the workers of a problem, and check that they can make a run."""
    with user_code():
        ready = read_problem(problem)
    system = ready.execution.cluster
    if not isinstance(system, BatchSystem):
        raise failed(
            f'{ready.path.name} names no batch system: add cluster = "slurm" to [execution], and '
            "[execution.job] with queue, walltime, cores and memory"
        )
    script = system.script()
    console.print(script.strip(), soft_wrap=True)
    if not check:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".sh", dir=Path.cwd()) as file:
        file.write(script)
        file.flush()
        said = system.ask(file.name)
    inform(said or f"{system.kind} cannot be asked whether it takes a job: a worker will tell")
    inform("waiting for one worker; Ctrl-C leaves")
    where = replace(ready.execution, workers=1)
    check_run(replace(ready, execution=where), repeat_known=False, elsewhere=True)


def submit(ready: ProblemFile, options: list[str]) -> None:
    """Send the search itself as a job, which is queued again until the search has ended."""
    if shutil.which("sbatch") is None:
        raise failed(
            "--submit needs SLURM, and there is no sbatch here: run it on a machine that submits "
            "jobs. For other batch systems the page on clusters has a script"
        )
    script = ready.path.with_name(f"{ready.path.stem}-driver.sh")
    script.write_text(driver_script(ready, options), encoding="utf-8")
    done = subprocess.run(
        ["sbatch", "--parsable", str(script)],
        capture_output=True, text=True, check=False, cwd=ready.path.parent,
    )  # fmt: skip
    if done.returncode:
        raise failed(f"sbatch refuses {short(script)}: {done.stderr.strip()}")
    job = done.stdout.strip().partition(";")[0]
    console.print(
        f"job {job} runs {ready.path.name} ({short(script)}); follow it: supac show "
        f"{short(ready.store)} --follow, and stop it: scancel {job}",
        soft_wrap=True,
    )


def driver_script(ready: ProblemFile, options: list[str]) -> str:
    """Return the script of the job that makes the search."""
    execution = Source(ready.text, ready.path).table("execution")
    job, own = execution.get("job", {}), execution.get("driver", {})
    words = [sys.executable, "-m", "supac", "run", str(ready.path), "--continue", *options]
    return _DRIVER.format(
        name=f"supac-{ready.path.stem}",
        log=ready.path.with_name(f"{ready.path.stem}-driver.log"),
        notice=_NOTICE,
        directives="\n".join(f"#SBATCH {each}" for each in _directives(ready, job, own)),
        setup="\n".join(own.get("setup", job.get("setup", ()))),
        command=shlex.join(words),
    )


def _directives(ready: ProblemFile, job: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Return what the job of a search asks for; without a cluster, it makes the runs as well."""
    workers = ready.execution.workers
    alone = ready.execution.cluster is None
    cores = own.get("cores", workers if alone and isinstance(workers, int) else 1)
    further = own.get("directives", ())
    walltime = own.get("walltime", job.get("walltime"))
    seconds = None if walltime is None else seconds_of(str(walltime))
    if seconds is not None and seconds <= 2 * _NOTICE and "--signal" not in " ".join(further):
        raise failed(
            f"walltime is {walltime} in [execution.driver], and the search is told {_NOTICE} s "
            "before its end: give it more than two minutes, or another --signal in directives"
        )
    asked = {
        "partition": own.get("queue", job.get("queue")),
        "account": own.get("account", job.get("account")),
        "time": walltime,
        "mem": own.get("memory"),
    }
    found = [f"--{name}={value}" for name, value in asked.items() if value]
    return [*found, f"--cpus-per-task={cores}", *further]
