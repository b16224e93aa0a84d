"""Capacity as it is now: workers that come late are used, and executors are asked for theirs."""

from __future__ import annotations

import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from extras import needs
from servers import local_cluster
from supac.arrays import FloatArray
from supac.running import Request, Simulator, open_pool

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
SIMULATORS = [Simulator(lambda x: float(x[0]), "risk", 0)]


class Untold(Executor):
    """Does not say how many runs it makes at the same time, as executors of other packages do."""

    def __init__(self, workers: int):
        self.pool = ThreadPoolExecutor(workers)

    def submit(self, *call: Any, **named: Any) -> Future[Any]:
        return self.pool.submit(*call, **named)

    def shutdown(self, *given: Any, **named: Any) -> None:
        self.pool.shutdown(*given, **named)


def test_an_executor_of_unknown_size_is_told_of() -> None:
    with Untold(3) as executor:
        with pytest.warns(RuntimeWarning, match=r"Untold does not say how many .*capacity=N"):
            assert open_pool(supac.Execution(executor), SIMULATORS).capacity == 8
        assert open_pool(supac.Execution(executor, capacity=3), SIMULATORS).capacity == 3


def test_a_capacity_must_be_a_number_of_runs() -> None:
    with pytest.raises(ValueError, match="capacity"):
        supac.Execution(capacity=0)


def test_an_executor_that_grows_is_asked_again() -> None:
    with ThreadPoolExecutor(2) as executor:
        pool = open_pool(supac.Execution(executor), SIMULATORS)
        assert pool.capacity == 2
        executor._max_workers = 5
        assert pool.capacity == 5


def runs_at_once(ledger: Path) -> int:
    """The highest number of runs that were made at the same time."""
    times = [tuple(map(float, line.split())) for line in ledger.read_text().splitlines()]
    steps = sorted([(begin, 1) for begin, _ in times] + [(end, -1) for _, end in times])
    return int(np.cumsum([step for _, step in steps]).max())


@pytest.mark.parametrize("mode", ["batch", "async"])
def test_workers_that_come_late_are_used_soon(mode: Any, tmp_path: Path) -> None:
    """One worker at the start and twelve later; the bits of batch mode are those of one process."""
    needs("distributed")
    ledger = tmp_path / "ledger"

    def slow(x: FloatArray) -> float:
        begin = time.time()
        time.sleep(0.5)
        with ledger.open("a") as file:
            file.write(f"{begin} {time.time()}\n")
        return 0.5 + 0.3 * float(np.sin(x).mean())

    def plain(x: FloatArray) -> float:
        return 0.5 + 0.3 * float(np.sin(x).mean())

    settings: dict[str, Any] = {
        "budget": 48,
        "validation": 0,
        "algorithm": supac.SuPAC(supac.Voronoi(draws=200), supac.FixedStep(), first=36, batch=12),
    }
    with local_cluster(1, processes=False) as cluster:
        came: list[float] = []

        def scale(seconds: float) -> None:
            time.sleep(seconds)
            cluster.scale(12)
            while len(cluster.scheduler.workers) < 12:
                time.sleep(0.01)
            came.append(time.time())

        with ThreadPoolExecutor(1) as other:
            other.submit(scale, 0.7)
            result = supac.minimize(
                slow,
                PLANE,
                supac.Catoni(0.05),
                execution=supac.Execution(cluster, mode=mode),
                **settings,
            )
    times = [float(line.split()[0]) for line in ledger.read_text().splitlines()]
    # Within a second on a machine of its own; a busy one is no fault of the code.
    soon = sum(came[0] < each < came[0] + 3.0 for each in times)
    assert runs_at_once(ledger) == 12
    assert soon >= 11  # of the twelve workers, one may have been at work already
    if mode == "batch":
        alone = supac.minimize(plain, PLANE, supac.Catoni(0.05), **settings)
        assert result.posterior == alone.posterior


def test_the_number_of_workers_of_a_cluster_is_known_without_waiting() -> None:
    needs("distributed")
    with local_cluster(1, processes=False) as cluster:
        pool = open_pool(supac.Execution(cluster), SIMULATORS)
        assert pool.capacity == 1
        cluster.scale(3)
        end = time.monotonic() + 20.0
        while pool.capacity < 3 and time.monotonic() < end:
            start = time.monotonic()
            pool.collect(0.0)
            assert time.monotonic() - start < 1.0
            time.sleep(0.02)
        assert pool.capacity == 3
        pool.submit(Request(0, np.zeros(2)))
        assert len(pool.collect(20.0)) == 1
        pool.close()
