from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.running import Request, futures
from supac.running.executors import open_pool
from supac.running.futures import FuturesPool
from supac.running.simulator import Simulator
from waiting import PATIENCE
from waves import wave

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
QUICK = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=10, batch=10)


def minimize(risk: Callable[[FloatArray], Any], **options: Any) -> supac.Result:
    settings: dict[str, Any] = {"budget": 30, "algorithm": QUICK, **options}
    return supac.minimize(risk, PLANE, supac.Catoni(0.05), **settings)


def spawning(workers: int) -> Executor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def alone() -> supac.Result:
    return minimize(wave)


@pytest.mark.parametrize("timeout", [None, 30.0])
@pytest.mark.parametrize("pool", [ThreadPoolExecutor, spawning])
def test_a_pool_gives_the_same_bits(
    pool: Callable[[int], Executor], timeout: float | None, alone: supac.Result
) -> None:
    with pool(2) as executor:
        assert (
            minimize(wave, execution=supac.Execution(executor, timeout=timeout)).posterior
            == alone.posterior
        )


def test_a_pool_can_be_used_again(alone: supac.Result) -> None:
    with ThreadPoolExecutor(2) as executor:
        minimize(wave, execution=executor)
        assert (
            minimize(lambda x: 0.5 + 0.3 * float(np.sin(x).mean()), execution=executor).posterior
            == alone.posterior
        )


def test_the_end_of_one_search_leaves_the_runs_of_another_alone(tmp_path: Path) -> None:
    def patient(x: FloatArray) -> float:
        (tmp_path / "begun").touch()
        while not (tmp_path / "go on").exists():
            time.sleep(0.01)
        return wave(x)

    simulators = [Simulator(patient, "risk", 0)]
    with ThreadPoolExecutor(1) as executor:
        execution = supac.Execution(executor, timeout=60.0)
        one, other = (open_pool(execution, simulators) for _ in range(2))
        one.submit(Request(0, np.zeros(2)))
        while not (tmp_path / "begun").exists():
            assert not one.collect(0.01)
        other.close()
        (tmp_path / "go on").touch()
        (answer,) = one.collect(60.0)
        one.close()
    assert answer.status is supac.Status.OK
    assert answer.attempts == 1


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, spawning])
def test_asynchronous_runs_spend_the_budget(pool: Callable[[int], Executor]) -> None:
    with pool(2) as executor:
        result = minimize(wave, execution=supac.Execution(executor, mode="async"))
    assert result.stop_reason is supac.StopReason.BUDGET
    assert len(result.evaluations) == 30


def test_lambdas_and_closures_travel(alone: supac.Result) -> None:
    height = 0.3

    def closure(x: FloatArray) -> float:
        return 0.5 + height * float(np.sin(x).mean())

    assert (
        minimize(lambda x: 0.5 + 0.3 * float(np.sin(x).mean()), execution=2).posterior
        == alone.posterior
    )
    assert minimize(closure, execution=2).posterior == alone.posterior


SCRIPT = """
import numpy as np, supac

class Heights:
    low, high = 0.5, 0.3

def risk(x):
    return Heights.low + Heights.high * float(np.sin(x).mean())

print("once")
algorithm = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=10, batch=10)
plane = supac.gaussian([0.0, 0.0], np.eye(2))
result = supac.minimize(
    risk, plane, supac.Catoni(0.05), budget=30, algorithm=algorithm, execution=2
)
print(result.posterior.mean.tobytes().hex())
"""


def test_a_script_needs_no_guard(tmp_path: Path, alone: supac.Result) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.split() == ["once", alone.posterior.mean.tobytes().hex()]
    assert done.stderr == ""


def test_a_script_may_use_a_module_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def risk(x): return 0.5 + 0.1 * x[0] ** 2")
    script = tmp_path / "script.py"
    script.write_text("from model import risk\n" + SCRIPT.replace("def risk", "def other"))
    subprocess.run(
        [sys.executable, script], check=True, timeout=PATIENCE, capture_output=True, cwd="/"
    )


def test_what_cannot_travel_is_refused_with_a_way_out() -> None:
    lock = threading.Lock()

    def locked(x: FloatArray) -> float:
        with lock:
            return wave(x)

    with pytest.raises(TypeError, match=r"risk cannot be sent to another process.*PerWorker\(load"):
        minimize(locked, execution=2)


def counting(ledger: Path) -> supac.PerWorker:
    """A simulator that cannot travel once it is loaded, and says who loads it."""

    def load() -> Callable[[FloatArray], float]:
        lock = threading.Lock()
        with ledger.open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.1)

        def locked(x: FloatArray) -> float:
            with lock:
                return wave(x)

        return locked

    return supac.PerWorker(load)


@pytest.mark.parametrize(("pool", "most"), [(int, 2), (spawning, 2), (ThreadPoolExecutor, 1)])
def test_what_is_expensive_is_loaded_once_a_process(
    pool: Callable[[int], Any], most: int, tmp_path: Path, alone: supac.Result
) -> None:
    executor = pool(2)
    result = minimize(counting(tmp_path / "ledger"), execution=executor)
    if isinstance(executor, Executor):
        executor.shutdown()
    assert result.posterior == alone.posterior
    loads = (tmp_path / "ledger").read_text().split()
    assert 1 <= len(loads) == len(set(loads)) <= most


def test_what_cannot_be_loaded_is_a_failure_that_says_so() -> None:
    def load() -> Callable[[FloatArray], float]:
        raise RuntimeError("no licence")

    few = supac.SuPAC(first=2, batch=2)
    for executor in (1, ThreadPoolExecutor(1)):
        with pytest.raises(supac.EvaluationError, match="not be loaded: RuntimeError: no licence"):
            minimize(supac.PerWorker(load), execution=executor, algorithm=few)


def test_a_pool_that_breaks_loses_nothing(tmp_path: Path, alone: supac.Result) -> None:
    deadly, store, ledger = tmp_path / "deadly", tmp_path / "run.supac", tmp_path / "ledger"
    deadly.touch()

    def mortal(x: FloatArray) -> float:
        if deadly.exists() and x[0] < -2.0:
            os.kill(os.getpid(), signal.SIGKILL)
        with ledger.open("ab", buffering=0) as file:
            file.write(x[:1].tobytes().hex().encode() + b"\n")
        return wave(x)

    with (
        spawning(2) as executor,
        pytest.raises(supac.ExecutionError, match=r"no more runs \(A .*process.*pass execution=N"),
    ):
        minimize(mortal, execution=executor, store=store)
    deadly.unlink()
    made = len(ledger.read_text().split())
    assert made >= 3
    assert supac.resume(store, mortal, execution=2).posterior == alone.posterior
    # Runs that had ended when their neighbour died may not have reached the driver: of the four
    # that two processes are given at a time, all but the deadly one.
    assert len(ledger.read_text().split()) <= 30 + 3


def test_a_dead_process_with_a_living_child_of_its_own_is_noticed() -> None:
    """A child of the simulator's own inherits the line to the driver, and does not hang it up."""

    def parent(x: FloatArray) -> float:
        if os.fork() == 0:
            time.sleep(600.0)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0.0

    result = minimize(
        parent,
        execution=supac.Execution(1, retries=0, on_failure="penalise"),
        budget=2,
        algorithm=supac.SuPAC(first=2, batch=2),
    )
    assert all("killed by SIGKILL" in run.message for run in result.failures)
    assert len(result.failures) == 2


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_only_time_in_which_a_run_waits_is_time_without_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(futures, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    monkeypatch.setattr(futures, "_INTERVAL", 0.0)
    watching = futures.Watchdog(lambda: 0, lambda: "running")
    pool = FuturesPool(lambda request: Future(), lambda: 1, lambda: None, watchdog=watching)
    now[0] += 130.0  # a fit
    pool.submit(Request(0, np.zeros(2)))
    now[0] += 110.0
    assert pool.collect(0.0) == []  # a warning would be an error
    now[0] += 10.0
    with pytest.warns(RuntimeWarning, match="no worker for 120 s"):
        pool.collect(0.0)


BAD_EXECUTORS: list[tuple[Any, type[Exception], str]] = [
    (0, ValueError, "workers must be at least one process, not 0"),
    (-2, ValueError, "workers must be at least one process, not -2"),
    (object(), TypeError, "workers must be None, a number of processes, an Executor"),
    (ThreadPoolExecutor, TypeError, "workers must be None, a number of processes, an Executor"),
    (2.0, TypeError, "workers must be None, a number of processes"),
]


@pytest.mark.parametrize(("executor", "kind", "message"), BAD_EXECUTORS)
def test_bad_executors_are_refused(executor: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        minimize(wave, execution=executor)


def test_an_executor_that_is_shut_down_says_so() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(supac.ExecutionError, match="cannot schedule new futures after shutdown"):
        minimize(wave, execution=executor)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:{free}", "refused"),
        ("nonsense", "missing port number"),
        ("http://127.0.0.1:80", "unknown address scheme"),
    ],
)
def test_an_address_where_nobody_answers_is_refused_at_once(
    address: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    from supac.running import dask_cluster  # noqa: PLC0415

    monkeypatch.setattr(dask_cluster, "_ANSWERS", PATIENCE)
    start = time.monotonic()
    with pytest.raises(supac.ExecutionError, match=f"no Dask scheduler answers at .*{reason}"):
        minimize(wave, execution=address.format(free=free_port()))
    assert time.monotonic() - start < PATIENCE  # it does not wait for an answer
