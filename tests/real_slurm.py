"""A real SLURM of several virtual nodes on this machine.

It needs root and the packages slurmctld, slurmd, slurm-client and munge, which `.ci/slurm`
installs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers import free_port
from waiting import PATIENCE

NODES = 8  # for runs, and two others for what takes long beside them
CONFIGURATION = """
ClusterName=supac-{mark}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/{task}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,nohold_on_prolog_fail
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
TmpFS={folder}/tmp/%n
MpiDefault=none
KillWait=2
MinJobAge=300
InactiveLimit=0
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
DefMemPerCPU=300
NodeName=n[1-{all}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1 \
RealMemory=4000 State=UNKNOWN
PartitionName=drivers Nodes=n[{apart}-{all}] MaxTime=60 State=UP PriorityTier=1
PartitionName=compute Nodes=n[1-{nodes}] Default=YES MaxTime=60 DefaultTime=10 State=UP \
PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=urgent Nodes=n[1-{nodes}] MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
"""
CGROUPS = "CgroupAutomount=no\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\nConstrainCores=no\n"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "munged")


@dataclass(frozen=True)
class Slurm:
    """A running SLURM, and the environment of its users."""

    environment: dict[str, str]
    limits_memory: bool

    def run(self, *words: object, cwd: Path | None = None, check: bool = True) -> str:
        """Run a command and return what it prints."""
        done = subprocess.run(
            [str(each) for each in words], env=self.environment, cwd=cwd, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=150,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout
        return done.stdout

    def start(self, *words: object, cwd: Path, log: str = "log") -> subprocess.Popen[bytes]:
        """Start a command in the background, with its output in a file."""
        with (cwd / log).open("ab") as file:
            return subprocess.Popen(
                [str(each) for each in words], env=self.environment, cwd=cwd,
                stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def jobs(self, *states: str, partition: str = "compute") -> list[str]:
        """Return the ids of jobs in these states."""
        wanted = ["-t", ",".join(states)] if states else []
        return self.run("squeue", "-h", "-o", "%i", "-p", partition, *wanted).split()

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Wait for a condition."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.run("squeue") + self.run("sinfo")
            time.sleep(0.1)

    def fact(self, job: str, name: str) -> str:
        """Return a fact about a job, such as its state, by `scontrol show job`."""
        said = self.run("scontrol", "show", "job", job, check=False)
        found = re.search(rf"\b{name}=(\S+)", said)
        return "" if found is None else found[1]

    def goes_on_to_its_end(self, job: str, seconds: float = 600.0) -> None:
        """Wait until a job has ended, and is not queued again; let it begin without the rest."""
        end, since, last = time.monotonic() + seconds, time.monotonic(), ""
        while last not in ENDED or time.monotonic() < since + 3.0:
            assert time.monotonic() < end, self.run("squeue", "--all")
            state = self.fact(job, "JobState")
            if state != last:  # there is a moment between its end and the queue
                since, last = time.monotonic(), state
            self._start_rested(job, state, since)
            time.sleep(0.3)

    def start_now(self, job: str) -> None:
        """Let a job that was queued again begin without the usual two minutes of rest."""
        self.until(lambda: self.fact(job, "JobState") == "PENDING", 600.0)
        since = time.monotonic()
        while self.fact(job, "JobState") == "PENDING":
            self._start_rested(job, "PENDING", since)
            time.sleep(0.3)

    def _start_rested(self, job: str, state: str, since: float) -> None:
        """Start a job that waits, but not within the second in which its node let go of it.

        The node takes that for the same job, and refuses it.
        """
        if state == "PENDING" and time.monotonic() > since + 2.0:
            self.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        why = f"there is no {missing[0]} here" if missing else "only root can start one"
        if os.environ.get("SUPAC_SLURM_REQUIRED"):
            pytest.fail(f"a SLURM was to be there: {why}")
        pytest.skip(f"no SLURM can be started: {why}")
    folder = tmp_path_factory.mktemp("slurm")
    limits = _can_limit_memory()
    munged = _start_munge(folder)
    environment = _environment(folder)
    try:
        _configure(folder, limits=limits)
        _start(folder, environment)
        yield Slurm(environment, limits)
    finally:
        subprocess.run(["scancel", "-u", "root"], env=environment, check=False)
        time.sleep(0.5)
        for each in [*folder.glob("slurmd.*.pid"), folder / "slurmctld.pid"]:
            with suppress(OSError, ValueError):
                os.kill(int(each.read_text()), signal.SIGTERM)
        if munged is not None:
            munged.terminate()
            munged.wait()


def _environment(folder: Path) -> dict[str, str]:
    known = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PYTEST"))}
    path = f"{Path(sys.executable).parent}:{known.get('PATH', '')}"
    return {
        **known,
        "SLURM_CONF": str(folder / "slurm.conf"),
        "PATH": path,
        "OMP_NUM_THREADS": "1",
        # A job that has gone is replaced soon: the usual patience is 15 s.
        "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "2s",
    }


def _can_limit_memory() -> bool:
    """Return whether SLURM can give each job a control group here."""
    return os.access("/sys/fs/cgroup/memory", os.W_OK) and os.access(
        "/sys/fs/cgroup/freezer", os.W_OK
    )


def _start_munge(folder: Path) -> subprocess.Popen[bytes] | None:
    """Start the daemon that signs messages, unless there is one."""
    if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0:
        return None
    for name in ("/run/munge", "/var/log/munge", "/var/lib/munge"):
        Path(name).mkdir(exist_ok=True)
        shutil.chown(name, "munge", "munge")
    key = Path("/etc/munge/munge.key")
    if not key.exists() or not key.stat().st_size:
        key.write_bytes(os.urandom(1024))
        shutil.chown(key, "munge", "munge")
        key.chmod(0o400)
    command = ["runuser", "-u", "munge", "--", shutil.which("munged") or "munged", "-F", "--force"]
    daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 10.0
    while subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode:
        if time.monotonic() > end:
            pytest.skip("no SLURM can be started: munge does not answer")
        time.sleep(0.1)
    return daemon


def _configure(folder: Path, *, limits: bool) -> None:
    for name in ("state", "spool", "tmp"):
        (folder / name).mkdir()
    for i in range(1, NODES + 3):
        (folder / "spool" / f"n{i}").mkdir()
        (folder / "tmp" / f"n{i}").mkdir()
    first = _free_ports(NODES + 2)
    told = CONFIGURATION.format(
        mark=os.getpid(), host=socket.gethostname().partition(".")[0], port=free_port(),
        folder=folder, nodes=NODES, apart=NODES + 1,
        all=NODES + 2, first=first, last=first + NODES + 1,
        proctrack="cgroup" if limits else "linuxproc", task="cgroup" if limits else "none",
    )  # fmt: skip
    (folder / "slurm.conf").write_text(told)
    (folder / "cgroup.conf").write_text(CGROUPS)


def _free_ports(count: int) -> int:
    """Return the first of so many successive free ports."""
    for first in range(20_000 + os.getpid() % 10_000, 60_000, count):
        with suppress(OSError):
            for port in range(first, first + count):
                with socket.socket() as each:
                    each.bind(("127.0.0.1", port))
            return first
    raise AssertionError("there are no free ports")


def _start(folder: Path, environment: dict[str, str]) -> None:
    subprocess.run(["slurmctld", "-i"], env=environment, check=True, capture_output=True)
    for i in range(1, NODES + 3):
        subprocess.run(["slurmd", "-N", f"n{i}"], env=environment, check=True, capture_output=True)
    end = time.monotonic() + 30.0
    while True:
        command = ["sinfo", "-h", "-t", "idle", "-o", "%D", "-p", "compute"]
        said = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        ).stdout
        if said.strip() == str(NODES):
            return
        if time.monotonic() > end:
            log = (folder / "slurmctld.log").read_text()[-500:]
            pytest.skip(f"no SLURM can be started: its nodes do not answer\n{log}")
        time.sleep(0.2)
