from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import supac
from extras import needs
from servers import local_cluster, mortal_cluster
from supac.arrays import FloatArray
from supac.running import Request, Simulator, dask_cluster, futures, open_pool
from waiting import PATIENCE
from waves import wave

if TYPE_CHECKING:
    from distributed import LocalCluster

needs("distributed")

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
QUICK = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=10, batch=10)

# Warnings of Dask's own about the workers that these tests kill.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def connected(cluster: LocalCluster | str) -> Any:
    """Return a client that closes with its context."""
    from distributed import Client  # noqa: PLC0415

    return Client(cluster, set_as_default=False)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    import dask  # noqa: PLC0415
    import distributed  # noqa: F401, PLC0415 - its defaults, which would go with the first option

    # A LocalCluster gives a worker up for good that is not there 15 s after any of its deaths: on a
    # busy machine one that has died again may be starting just then, and runs would wait for ever.
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    # A run that has killed two workers is deadly: each start of a worker takes a second.
    strict = dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with patient, strict, local_cluster(2, processes=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Any]:
    with connected(cluster) as client:
        yield client


@pytest.fixture
def executor(client: Any) -> Any:
    client.wait_for_workers(2, timeout=PATIENCE)
    return client.get_executor()


def minimize(risk: Callable[[FloatArray], Any], **options: Any) -> supac.Result:
    settings: dict[str, Any] = {"budget": 30, "algorithm": QUICK, **options}
    return supac.minimize(risk, PLANE, supac.Catoni(0.05), **settings)


@pytest.fixture(scope="module")
def alone() -> supac.Result:
    return minimize(wave)


def test_an_executor_of_dask_gives_the_same_bits(executor: Any, alone: supac.Result) -> None:
    assert minimize(wave, execution=executor).posterior == alone.posterior
    assert (
        minimize(lambda x: 0.5 + 0.3 * float(np.sin(x).mean()), execution=executor).posterior
        == alone.posterior
    )


def test_an_address_is_enough(cluster: LocalCluster, executor: Any, alone: supac.Result) -> None:
    address = cluster.scheduler_address
    assert minimize(wave, execution=address).posterior == alone.posterior


def test_asynchronous_runs_spend_the_budget(executor: Any) -> None:
    result = minimize(wave, execution=supac.Execution(executor, mode="async"))
    assert result.stop_reason is supac.StopReason.BUDGET
    assert len(result.evaluations) == 30
    assert result.evaluations.failed == 0


def test_what_is_expensive_is_loaded_once_a_worker(
    executor: Any, tmp_path: Path, alone: supac.Result
) -> None:
    ledger = tmp_path / "ledger"

    def load() -> Callable[[FloatArray], float]:
        with ledger.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return wave

    assert minimize(supac.PerWorker(load), execution=executor).posterior == alone.posterior
    loads = ledger.read_text().split()
    assert len(loads) == len(set(loads)) <= 2
    assert str(os.getpid()) not in loads


def test_a_hanging_run_is_killed_and_its_worker_lives_on(
    client: Any, executor: Any, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"

    def hanging(x: FloatArray) -> float:
        if x[0] > 1.0:
            with ledger.open("a") as file:
                file.write(f"{os.getpid()}\n")
            time.sleep(600.0)
        return wave(x)

    workers = set(client.run(os.getpid).values())
    result = minimize(
        hanging, execution=supac.Execution(executor, timeout=2.0, on_failure="penalise"), budget=10
    )
    assert {run.status for run in result.failures} == {supac.Status.TIMED_OUT}
    assert len(result.failures) == (result.evaluations.x[:, 0] > 1.0).sum() > 0
    assert all(1.9 < run.seconds < PATIENCE for run in result.failures)
    assert set(client.run(os.getpid).values()) == workers
    assert not any(Path(f"/proc/{pid}").exists() for pid in ledger.read_text().split())


def test_a_longer_timeout_counts_from_the_next_run_on(executor: Any) -> None:
    def slow(x: FloatArray) -> float:
        time.sleep(0.3)
        return wave(x)

    few = supac.SuPAC(first=2, batch=2)
    for timeout, failures in ((0.1, 2), (PATIENCE, 0)):
        where = supac.Execution(executor, timeout=timeout, on_failure="penalise")
        assert len(minimize(slow, execution=where, budget=2, algorithm=few).failures) == failures


def segfault(x: FloatArray) -> float:
    """At one point in ten or so, always."""
    if x[0] > 1.2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return wave(x)


def test_a_crash_in_a_child_of_a_worker_is_recorded(client: Any, executor: Any) -> None:
    workers = set(client.run(os.getpid).values())
    result = minimize(
        segfault,
        execution=supac.Execution(executor, timeout=30.0, retries=1, on_failure="penalise"),
        budget=10,
    )
    assert len(result.failures) == (result.evaluations.x[:, 0] > 1.2).sum() > 0
    for run in result.failures:
        assert run.status is supac.Status.CRASHED
        assert run.attempts == 2
        assert "killed by SIGSEGV" in run.message
    assert set(client.run(os.getpid).values()) == workers


def test_a_run_that_is_lost_with_its_worker_is_made_again(
    client: Any, executor: Any, tmp_path: Path, alone: supac.Result
) -> None:
    once = tmp_path / "once"

    def mortal(x: FloatArray) -> float:
        if x[0] > 0.5 and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return wave(x)

    result = minimize(mortal, execution=executor)
    assert once.exists()
    assert result.posterior == alone.posterior


def test_a_crash_is_recorded_and_kills_no_worker(executor: Any) -> None:
    result = minimize(
        segfault, execution=supac.Execution(executor, on_failure="penalise"), budget=10
    )
    assert result.stop_reason is supac.StopReason.BUDGET
    assert len(result.failures) == (result.evaluations.x[:, 0] > 1.2).sum() > 0
    for run in result.failures:
        assert run.x[0] > 1.2
        assert run.status is supac.Status.CRASHED
        assert "killed by SIGSEGV" in run.message


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_a_forked_copy_of_a_worker_never_answers(
    client: Any, executor: Any, timeout: float | None, tmp_path: Path
) -> None:
    ledger, points = tmp_path / "ledger", np.linspace(-1.0, 1.0, 12)[:, None]

    def forks(x: FloatArray) -> float:
        with ledger.open("a") as file:
            file.write(f"{os.getpid()} ")
        if x[0] > 0.0 and os.fork() == 0:
            return 99.0
        return float(x[0])

    pool = open_pool(
        supac.Execution(client, timeout=timeout, retries=0), [Simulator(forks, "risk", 0)]
    )
    for row, x in enumerate(points):
        pool.submit(Request(row, x))
    found: dict[int, float] = {}
    while len(pool):
        found |= {each.id: float(np.asarray(each.values)) for each in pool.collect(1.0)}
    pool.close()
    assert found == dict(enumerate(points[:, 0]))
    assert len(ledger.read_text().split()) == 12
    # Made in children of theirs.
    assert not set(ledger.read_text().split()) & set(map(str, client.run(os.getpid).values()))


def test_a_client_and_its_cluster_will_do(client: Any) -> None:
    plain = minimize(wave).posterior
    assert minimize(wave, execution=client).posterior == plain
    assert minimize(wave, execution=client.cluster).posterior == plain


def test_a_cluster_without_workers_is_waited_for_aloud(
    monkeypatch: pytest.MonkeyPatch, alone: supac.Result
) -> None:
    monkeypatch.setattr(futures, "_INTERVAL", 0.1)
    monkeypatch.setattr(futures, "_PATIENCE", 0.5)
    with local_cluster(0, processes=False) as cluster:
        said: list[str] = []

        def hear(message: str, *_: object, **__: object) -> None:
            said.append(message)
            cluster.scale(1)

        monkeypatch.setattr(warnings, "warn", hear)
        result = minimize(wave, execution=cluster)
        monkeypatch.undo()
    assert result.posterior == alone.posterior
    (message,) = said
    assert "the cluster has had no worker for" in message


def now_and_then_slow(x: FloatArray) -> float:
    time.sleep(3.0 if x[0] < -2.2 else 0.0)
    return wave(x)


@contextmanager
def mute() -> Iterator[tuple[Any, Callable[[], None]]]:
    """A client, and what makes its scheduler silent on its workers."""

    async def hang(**_: Any) -> dict[str, int]:
        await asyncio.sleep(PATIENCE)
        return {}

    with (
        local_cluster(1, processes=False) as cluster,
        connected(cluster) as client,
    ):
        yield client, lambda: setattr(client.scheduler, "ncores", hang)


def test_a_scheduler_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_ANSWERS", 0.2)
    with mute() as (client, silence):
        silence()
        with pytest.raises(supac.ExecutionError, match=r"does not say .* \(TimeoutError"):
            minimize(wave, execution=client)


def test_a_scheduler_that_falls_silent_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, alone: supac.Result
) -> None:
    monkeypatch.setattr(futures, "_INTERVAL", 0.01)
    monkeypatch.setattr(futures, "_PATIENCE", 0.3)
    words = r"not said whether it has workers \(TimeoutError"
    with mute() as (client, silence):

        def fall_silent(_: supac.Iteration) -> None:
            monkeypatch.setattr(dask_cluster, "_ANSWERS", 0.05)
            silence()

        with pytest.warns(RuntimeWarning, match=words):
            result = minimize(now_and_then_slow, execution=client, callback=fall_silent)
    assert (result.evaluations.x[10:, 0] < -2.2).any()  # after the scheduler fell silent
    assert result.posterior == alone.posterior


def test_a_scheduler_that_is_gone_is_no_failure_of_the_runs(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    cluster = local_cluster(1, processes=False)

    def close(iteration: supac.Iteration) -> None:
        cluster.close()

    with (
        cluster,
        connected(cluster) as client,
        pytest.raises(supac.ExecutionError, match="can make no more runs"),
    ):
        minimize(
            wave,
            execution=supac.Execution(client.get_executor(), on_failure="penalise"),
            store=store,
            callback=close,
        )
    gone_on = supac.resume(store, wave)
    assert (
        gone_on.posterior
        == minimize(wave, execution=supac.Execution(on_failure="penalise")).posterior
    )
    assert not gone_on.failures


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("owned", [True, False], ids=["client", "address"])
def test_a_scheduler_that_is_killed_is_said(owned: bool, retries: int, tmp_path: Path) -> None:
    """The run ends with an error that says how to go on, and goes on to the same posterior."""
    store, killed = tmp_path / "run.supac", threading.Event()

    def slow(x: FloatArray) -> float:
        time.sleep(0.2)
        return 0.5 + 0.3 * float(np.sin(x).mean())  # the cluster has no module of tests

    with mortal_cluster() as (address, process), ExitStack() as stack:
        client = connected(address) if owned else None
        if client is not None:
            stack.callback(client.close, timeout=1)

        def kill() -> None:
            process.kill()
            killed.set()

        def kill_soon(iteration: supac.Iteration) -> None:
            if not killed.is_set():  # while the next batch is being made
                threading.Timer(0.5, kill).start()

        with pytest.raises(supac.ExecutionError, match=r"no more runs .* go on with supac\.resume"):
            minimize(
                slow,
                execution=supac.Execution(
                    client or address, retries=retries, on_failure="penalise"
                ),
                store=store,
                callback=kill_soon,
            )
        assert killed.is_set()
    gone_on = supac.resume(store, wave)
    assert (
        gone_on.posterior
        == minimize(wave, execution=supac.Execution(on_failure="penalise")).posterior
    )
    assert not gone_on.failures
