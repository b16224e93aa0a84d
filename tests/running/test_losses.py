"""Runs that the machine takes are made again, elsewhere, and teach the search nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from extras import needs
from servers import local_cluster
from supac.arrays import FloatArray
from supac.record.record import Record
from supac.record.run import Run
from supac.record.settings import Settings
from supac.record.status import Status
from supac.running import Request, Simulator, open_pool
from supac.running.losses import Losses
from supac.simulators.program import ProgramError
from waiting import PATIENCE

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
QUICK = supac.SuPAC(supac.Voronoi(draws=200), supac.FixedStep(), first=10, batch=10)


def wave(x: FloatArray) -> float:
    return 0.5 + 0.3 * float(np.sin(x).mean())


def minimize(risk: Any, **options: Any) -> supac.Result:
    settings: dict[str, Any] = {"budget": 30, "algorithm": QUICK, "validation": 0, **options}
    return supac.minimize(risk, PLANE, supac.Catoni(0.05), **settings)


@pytest.fixture(scope="module")
def alone() -> supac.Result:
    return minimize(wave, execution=supac.Execution(on_failure="penalise"))


def lost_at_first(folder: Path, times: int) -> Any:
    """A simulator whose machine takes the runs on one side, each so many times."""

    def risk(x: FloatArray) -> float:
        if x[0] > 0.5:
            ledger = folder / x.tobytes().hex()
            with ledger.open("a") as file:
                file.write("x")
            if len(ledger.read_text()) <= times:
                raise supac.RunLostError("out of memory: 7 GB were not enough")
        return wave(x)

    return risk


@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("mode", ["batch", "async"])
def test_a_lost_run_is_made_again_and_is_no_failure(
    workers: int | None, mode: Any, tmp_path: Path, alone: supac.Result
) -> None:
    store = tmp_path / "run.supac"
    if mode == "async" and workers is None:
        pytest.skip("it needs workers")
    where = supac.Execution(workers, mode=mode, on_failure="penalise")
    result = minimize(lost_at_first(tmp_path, 2), execution=where, store=store)
    assert not result.failures
    if mode == "batch":
        assert result.posterior == alone.posterior
    kept = supac.read_store(store)
    beyond = sum(run.x[0] > 0.5 for run in kept.runs)
    assert len(kept.losses) == 2 * beyond > 0
    assert {each.reason for each in kept.losses} == {"out of memory: 7 GB were not enough"}
    assert kept.to_dict()["lost"] == len(kept.losses)


def test_a_run_that_is_lost_often_ends_the_search_and_not_the_region(
    tmp_path: Path, alone: supac.Result
) -> None:
    """Nothing is learnt from it; when its cause is mended, the search goes on as if nothing was."""
    store = tmp_path / "run.supac"
    where = supac.Execution(2, on_failure="penalise")
    with pytest.raises(supac.ExecutionError, match=r"lost 3 times.*memory.*supac resume"):
        minimize(lost_at_first(tmp_path, 1000), execution=where, store=store)
    kept = supac.read_store(store)
    assert kept.stop_reason is None
    assert not kept.failures
    assert {run.status for run in kept.runs} == {supac.Status.OK}
    assert all(run.x[0] <= 0.5 for run in kept.runs)
    mended = supac.resume(store, wave, execution=2)
    assert mended.posterior == alone.posterior
    assert not mended.failures


def test_a_process_that_is_ended_from_outside_is_lost_and_not_crashed(
    tmp_path: Path, alone: supac.Result
) -> None:
    """As at the end of a job's time, and by preemption."""

    def ended(x: FloatArray) -> float:
        once = tmp_path / "once"
        if x[0] > 0.5 and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(PATIENCE)
        return wave(x)

    store = tmp_path / "run.supac"
    where = supac.Execution(2, on_failure="penalise", retries=1)
    result = minimize(ended, execution=where, store=store)
    assert result.posterior == alone.posterior
    (loss,) = supac.read_store(store).losses
    assert "SIGTERM" in loss.reason


def test_a_program_that_is_ended_from_outside_is_lost(tmp_path: Path) -> None:
    program = supac.Program(["/bin/sh", "-c", "kill -TERM $$; sleep 5"])
    with pytest.raises(supac.RunLostError, match="SIGTERM"):
        program([0.5])
    words = "echo 'slurmstepd: error: Detected 1 oom_kill event' >&2; exit 137"
    with pytest.raises(supac.RunLostError, match="out of memory"):
        supac.Program(["/bin/sh", "-c", words])([0.5])
    with pytest.raises(ProgramError, match="SIGKILL"):
        supac.Program(["/bin/sh", "-c", "kill -KILL $$"])([0.5])


MEMORY = Path("/sys/fs/cgroup/memory")
HUNGRY = """
import sys, numpy as np, supac
from pathlib import Path
open("/sys/fs/cgroup/memory/{group}/cgroup.procs", "w").write("0")

def risk(x):
    if x[0] > 0.5:
        eaten = bytearray(500_000_000)
        eaten[:: 4096] = b"x" * len(eaten[:: 4096])
    return 0.2

def program(x):
    return float(supac.Program(sys.argv[2:])(x))

plane = supac.gaussian([0.0, 0.0], np.eye(2))
for each, workers in ((risk, 1), (program, 0)):
    try:
        supac.minimize(each, plane, supac.Catoni(0.05), budget=20,
                       execution=supac.Execution(workers or None, on_failure="penalise"))
    except supac.ExecutionError as error:
        print(error)
"""


@pytest.fixture
def small_group() -> Iterator[str]:
    """A control group of 300 MB, as a batch system makes one for a job."""
    name = f"supac-test-{os.getpid()}"
    folder = MEMORY / name
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text("300000000")
    except OSError:
        pytest.skip("no control group with a limit of memory can be made here")
    yield name
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.1)


def test_a_run_that_is_out_of_memory_is_lost(small_group: str, tmp_path: Path) -> None:
    eater = tmp_path / "eater.py"
    eater.write_text("x = bytearray(500_000_000); x[::4096] = b'x' * len(x[::4096])")
    done = subprocess.run(
        [sys.executable, "-c", HUNGRY.replace("{group}", small_group), "-", sys.executable, eater],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done
    for line in lines:
        assert "lost 3 times, the last time out of memory" in line
        assert "Give the runs more memory" in line


def test_a_worker_that_dies_takes_no_run_along_into_failure(
    tmp_path: Path, alone: supac.Result
) -> None:
    """A worker of a cluster, killed with its run: the run is made by another, bit for bit."""
    needs("distributed")
    store = tmp_path / "run.supac"
    import dask  # noqa: PLC0415
    import distributed  # noqa: F401, PLC0415

    def deadly(x: FloatArray) -> float:
        once = tmp_path / "once"
        if x[0] > 0.5 and not once.exists():
            once.touch()
            os.kill(worker_of(os.getpid()), signal.SIGKILL)
            time.sleep(60.0)
        return wave(x)

    def worker_of(child: int) -> int:
        """Its guard is between them."""
        for _ in range(2):
            child = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        return child

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster(2, processes=True) as cluster,
    ):
        where = supac.Execution(cluster, on_failure="penalise")
        result = minimize(deadly, execution=where, store=store)
    assert result.posterior == alone.posterior
    assert not result.failures
    losses = supac.read_store(store).losses
    assert any("its worker was lost" in each.reason and "after" in each.reason for each in losses)


@pytest.mark.parametrize(("left", "ended"), [(1.5, False), (0.3, True)])
def test_no_run_starts_that_cannot_end_before_the_walltime(
    left: float, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made elsewhere; where the whole job is too short, that is said."""
    from supac.running import worker  # noqa: PLC0415

    monkeypatch.setenv("SUPAC_WALLTIME_ENDS", str(int(time.time() + left)))
    monkeypatch.setattr(worker, "_BEGAN", time.time() - (60.0 if not ended else 0.0))
    answer = worker.too_late(Request(0, np.zeros(2), usual=30.0))
    assert answer is not None
    assert answer.late
    assert answer.attempts == int(ended)
    assert ("raise the walltime" in answer.message) is ended
    assert worker.too_late(Request(0, np.zeros(2), usual=0.0)) is None


def test_a_worker_whose_time_is_over_leaves_and_its_runs_are_made_by_others(
    tmp_path: Path, alone: supac.Result
) -> None:
    needs("distributed")
    from distributed import Client  # noqa: PLC0415

    def slow(x: FloatArray) -> float:
        time.sleep(0.3)
        return wave(x)

    def end_soon(dask_worker: Any) -> None:
        os.environ["SUPAC_WALLTIME_ENDS"] = str(int(time.time()))
        from supac.running import worker  # noqa: PLC0415

        worker._BEGAN -= 600.0

    store = tmp_path / "run.supac"
    with (
        local_cluster(2, processes=True) as cluster,
        Client(cluster, set_as_default=False) as client,  # type: ignore[no-untyped-call]
    ):
        first = next(iter(client.scheduler_info()["workers"]))

        def shorten(iteration: supac.Iteration) -> None:
            if iteration.queries == 10:
                client.run(end_soon, workers=[first])

        where = supac.Execution(client, on_failure="penalise")
        result = minimize(slow, execution=where, store=store, callback=shorten)
        left = list(client.scheduler_info()["workers"])
    assert result.posterior == alone.posterior
    assert not supac.read_store(store).losses  # they were only sent elsewhere
    assert first not in left


def test_a_loss_of_a_worker_that_cannot_be_told_from_another_is_bounded() -> None:
    """A simulator that cannot say where it is lost does not run for ever."""

    def lost(x: FloatArray) -> float:
        raise supac.RunLostError("nobody knows")

    with pytest.raises(supac.ExecutionError, match="lost once, the last time nobody knows"):
        minimize(lost, execution=supac.Execution(on_failure="penalise", retries=0))
    pool = open_pool(supac.Execution(2), [Simulator(lost, "risk", 0)])
    pool.submit(Request(0, np.zeros(2)))
    (answer,) = pool.collect(PATIENCE)
    assert answer.status is supac.Status.LOST
    pool.close()


def test_a_fine_run_is_timed_by_fine_runs() -> None:
    """Fifty quick coarse runs do not make a long fine one fit into the end of a job."""
    made = [Run(i, np.zeros(2), Status.OK, 0.1, seconds=600.0) for i in range(4)]
    coarse = [Run(4 + i, np.zeros(2), Status.OK, 0.1, seconds=5.0, level=1) for i in range(50)]
    losses = Losses(Record(Settings(kind="minimize"), None, runs=[*made, *coarse]), retries=2)
    assert losses.usual(0) == 600.0
    assert losses.usual(1) == 5.0
    losses.time_runs([replace(made[0], seconds=900.0)] * 40)
    assert losses.usual(0) == 900.0
    assert losses.usual(1) == 5.0
