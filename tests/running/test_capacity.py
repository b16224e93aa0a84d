"""Capacity as it is now: workers that come late are used, and executors are asked for theirs."""

from __future__ import annotations

import tempfile
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
from supac.running.dask_cluster import ClusterSize
from waiting import PATIENCE, until

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


@pytest.mark.parametrize("mode", ["batch", "async"])
def test_workers_that_come_late_are_used_soon(mode: Any, tmp_path: Path) -> None:
    """One worker at the start and twelve later; the bits of batch mode are those of one process.

    A run that begins when they are there waits for eleven others.
    """
    needs("distributed")
    inside, came, twelve = (tmp_path / name for name in ("inside", "came", "twelve"))
    inside.mkdir()

    def slow(x: FloatArray) -> float:
        me = Path(tempfile.mkstemp(dir=inside)[1])
        if not came.exists():
            time.sleep(0.5)
        else:
            end = time.monotonic() + 30.0
            while not twelve.exists() and time.monotonic() < end:
                if len(list(inside.iterdir())) == 12:
                    twelve.touch()
                time.sleep(0.01)
        me.unlink()
        return 0.5 + 0.3 * float(np.sin(x).mean())

    def plain(x: FloatArray) -> float:
        return 0.5 + 0.3 * float(np.sin(x).mean())

    settings: dict[str, Any] = {
        "budget": 48,
        "validation": 0,
        "algorithm": supac.SuPAC(supac.Voronoi(draws=200), supac.FixedStep(), first=36, batch=12),
    }
    with local_cluster(1, processes=False) as cluster:

        def scale() -> None:
            until(lambda: list(inside.iterdir()))
            cluster.scale(12)
            until(lambda: len(cluster.scheduler.workers) == 12)
            came.touch()

        with ThreadPoolExecutor(1) as other:
            other.submit(scale)
            result = supac.minimize(
                slow,
                PLANE,
                supac.Catoni(0.05),
                execution=supac.Execution(cluster, mode=mode),
                **settings,
            )
    assert twelve.exists()
    if mode == "batch":
        alone = supac.minimize(plain, PLANE, supac.Catoni(0.05), **settings)
        assert result.posterior == alone.posterior


def test_the_number_of_workers_of_a_cluster_is_known_without_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs("distributed")

    def wait(size: ClusterSize) -> int:
        raise AssertionError("it waits for the answer")

    with local_cluster(1, processes=False) as cluster:
        pool = open_pool(supac.Execution(cluster), SIMULATORS)
        assert pool.capacity == 1
        monkeypatch.setattr(ClusterSize, "ask", wait)
        cluster.scale(3)
        until(lambda: pool.collect(0.0) == [] and pool.capacity == 3)
        pool.submit(Request(0, np.zeros(2)))
        assert len(pool.collect(PATIENCE)) == 1
        pool.close()
